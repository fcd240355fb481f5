// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/custom_algorithms.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "client/ask/plugin/plugin.h"
#include "client/ask/query/exit_code.h"
#include "client/ask/query/outcome.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kFlag[] = "--custom-algorithms";

absl::Status CheckFile(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return ErrnoStatus(errno, fmt::format("{} {}", kFlag, path));
  }
  if (!S_ISREG(status.st_mode) || !path.ends_with(".py")) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} {}: it is not a Python file", kFlag, path);
  }
  if (status.st_uid != geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return MakeStatus(
        absl::StatusCode::kPermissionDenied,
        "{} {}: you must own the file, and others must not be able to write it",
        kFlag, path);
  }
  return absl::OkStatus();
}

absl::StatusOr<ask::PluginSpec> ParseFunction(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size() ||
      text.find(':', colon + 1) != std::string::npos) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: \"{}\" is not FILE.py:FUNCTION", kFlag, text);
  }
  ask::PluginSpec spec;
  spec.file = text.substr(0, colon);
  spec.function = text.substr(colon + 1);
  spec.metric = spec.function;
  spec.flag = kFlag;
  MSITD_RETURN_IF_ERROR(CheckFile(spec.file));
  return spec;
}

absl::Status StatusOf(const ask::Outcome& outcome) {
  if (outcome.ok()) return absl::OkStatus();
  return outcome.exit_code == ask::kExitInterrupted
             ? absl::CancelledError("interrupted")
             : absl::InvalidArgumentError(outcome.error);
}

// The bytes of a side in the form that a function receives.
class SingleBytes {
 public:
  explicit SingleBytes(const Tensor& tensor) : dtype_(tensor.dtype) {
    const auto* bytes = reinterpret_cast<const char*>(tensor.bytes.data());
    view_ = {bytes, tensor.bytes.size()};
    // The interpreter itself converts all narrower types to float32.
    if (dtype_ != DType::kFloat64) return;
    dtype_ = DType::kFloat32;
    single_.resize(tensor.bytes.size() / sizeof(double));
    for (size_t i = 0; i < single_.size(); ++i) {
      double element = 0;
      std::memcpy(&element, bytes + i * sizeof(element), sizeof(element));
      single_[i] = static_cast<float>(element);
    }
    view_ = {reinterpret_cast<const char*>(single_.data()),
             single_.size() * sizeof(float)};
  }

  SingleBytes(const SingleBytes&) = delete;
  SingleBytes& operator=(const SingleBytes&) = delete;

  DType dtype() const { return dtype_; }
  std::string_view view() const { return view_; }

 private:
  DType dtype_;
  std::string_view view_;
  std::vector<float> single_;
};

}  // namespace

CustomAlgorithms::CustomAlgorithms() = default;
CustomAlgorithms::CustomAlgorithms(CustomAlgorithms&&) noexcept = default;
CustomAlgorithms::~CustomAlgorithms() = default;

absl::StatusOr<CustomAlgorithms> CustomAlgorithms::Start(
    const std::vector<std::string>& functions, ask::Interrupts& interrupts,
    Logger& log) {
  if (functions.size() > kAlgorithmsMax) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: {} functions; the maximum is {}", kFlag,
                      functions.size(), kAlgorithmsMax);
  }
  CustomAlgorithms made;
  for (const std::string& function : functions) {
    MSITD_ASSIGN_OR_RETURN(const ask::PluginSpec spec, ParseFunction(function));
    ask::InterpreterOptions options;
    options.python = "python3";
    options.file = spec.file;
    options.function = spec.function;
    options.arrays = "torch";
    options.kind = ask::FunctionKind::kMsitMetric;
    std::unique_ptr<ask::Plugin> plugin;
    MSITD_RETURN_IF_ERROR(
        StatusOf(ask::Plugin::Create(spec, options, interrupts, plugin)));
    log.Info("Added custom comparing algorithm: " + spec.metric);
    const auto same = std::find_if(
        made.plugins_.begin(), made.plugins_.end(),
        [&](const auto& other) { return other->metric() == spec.metric; });
    if (same == made.plugins_.end()) {
      made.plugins_.push_back(std::move(plugin));
    } else {
      log.Warning("The last algorithm of this name is used: " + spec.metric);
      *same = std::move(plugin);
    }
  }
  return made;
}

std::vector<std::string> CustomAlgorithms::names() const {
  std::vector<std::string> out;
  for (const auto& plugin : plugins_) out.push_back(plugin->metric());
  return out;
}

absl::StatusOr<std::vector<ask::PairAnswer>> CustomAlgorithms::Measure(
    const Tensor& golden, const Tensor& my) {
  const SingleBytes golden_bytes(golden);
  const SingleBytes my_bytes(my);
  const ask::TensorPairBytes pair = {golden_bytes.view(), golden_bytes.dtype(),
                                     my_bytes.view(), my_bytes.dtype()};
  std::vector<ask::PairAnswer> answers(plugins_.size());
  for (size_t i = 0; i < plugins_.size(); ++i) {
    MSITD_RETURN_IF_ERROR(StatusOf(plugins_[i]->Measure(pair, answers[i])));
  }
  return answers;
}

}  // namespace msitd::msit_command
