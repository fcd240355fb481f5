// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/plugin/plugin.h"

#include <fmt/format.h>

#include <utility>

#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

// The outcome if an interpreter cannot use a plug-in.
Outcome StartError(const PluginSpec& spec, const absl::Status& status) {
  if (absl::IsCancelled(status)) return Interrupted();
  const std::string line =
      fmt::format("{} {}: {}", spec.flag, spec.file, Message(status));
  // If an interpreter ends or hangs while it loads the file, that is the fault
  // of the file.
  const bool is_of_file =
      absl::IsInvalidArgument(status) || absl::IsUnavailable(status) ||
      absl::IsDeadlineExceeded(status) || absl::IsDataLoss(status);
  return is_of_file ? UsageError(line) : LocalError(line);
}

}  // namespace

absl::StatusOr<PluginSpec> ParsePlugin(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 ||
      colon + 1 == text.size()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "--plugin \"{}\" is not FILE.py:FUNCTION", text);
  }
  const std::string function(text.substr(colon + 1));
  return PluginSpec{std::string(text.substr(0, colon)), function, function};
}

Outcome Plugin::Create(const PluginSpec& spec,
                       const InterpreterOptions& options,
                       Interrupts& interrupts, std::unique_ptr<Plugin>& out) {
  out.reset(new Plugin(spec, options, interrupts));
  auto interpreter = Interpreter::Start(options, interrupts);
  if (!interpreter.ok()) return StartError(spec, interpreter.status());
  out->interpreter_ = *std::move(interpreter);
  return {};
}

absl::Status Plugin::Prepare() {
  if (interpreter_ != nullptr || !given_up_.empty()) return absl::OkStatus();
  if (lost_count_ > kInterpretersLostMax) {
    given_up_ = fmt::format(
        "not measured: {} interpreters ended or took too "
        "long before",
        lost_count_);
    return absl::OkStatus();
  }
  auto interpreter = Interpreter::Start(options_, interrupts_);
  if (absl::IsCancelled(interpreter.status())) return interpreter.status();
  if (!interpreter.ok()) {
    given_up_ = AnswerText(fmt::format("not measured: no new interpreter: {}",
                                       Message(interpreter.status())));
    return absl::OkStatus();
  }
  interpreter_ = *std::move(interpreter);
  return absl::OkStatus();
}

Outcome Plugin::Measure(const TensorPairBytes& pair, PairAnswer& answer) {
  answer = {};
  if (const absl::Status ready = Prepare(); !ready.ok()) return Interrupted();
  if (!given_up_.empty()) {
    answer.text = given_up_;
    return {};
  }
  auto measured = interpreter_->Measure(pair);
  if (absl::IsCancelled(measured.status())) return Interrupted();
  if (!measured.ok()) {
    interpreter_.reset();
    ++lost_count_;
    answer.text = AnswerText(Message(measured.status()));
    return {};
  }
  answer = *std::move(measured);
  return {};
}

Outcome Plugin::Measure(const TensorPairBytes& pair, v1::CustomMetric& metric) {
  PairAnswer answer;
  MSITCTL_RETURN_IF_FAILED(Measure(pair, answer));
  if (answer.has_value) metric.set_value(answer.value);
  metric.set_text(std::move(answer.text));
  return {};
}

}  // namespace msitd::ctl
