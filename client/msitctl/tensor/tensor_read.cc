// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/tensor/tensor_read.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "client/ask/print/file_sink.h"
#include "client/ask/print/progress.h"
#include "client/ask/query/tensor_bytes.h"
#include "client/ask/text/text.h"
#include "client/foreign/write/writer/npy_header.h"
#include "protos/base/dtype.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// The part of a tensor that is read.
struct Content {
  std::string name;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  int64_t size_bytes = 0;
  bool is_sample = false;
};

Content ContentOf(const v1::Tensor& tensor, bool is_sample) {
  Content out;
  out.name = tensor.name();
  out.dtype = static_cast<DType>(tensor.dtype());
  out.shape.assign(tensor.shape().begin(), tensor.shape().end());
  out.size_bytes = tensor.size_bytes();
  out.is_sample = is_sample;
  if (is_sample) {
    const uint64_t count = SampleCount(ElementCount(out.shape));
    out.shape = {static_cast<int64_t>(count)};
    out.size_bytes = static_cast<int64_t>(count * ElementBytes(out.dtype));
  }
  return out;
}

ask::Outcome CheckDType(const Content& content) {
  if (IsValid(content.dtype)) return {};
  return ask::LocalError(fmt::format(
      "dtype {} is unknown to this msitctl; use --format raw without --sample",
      static_cast<int>(content.dtype)));
}

ask::Outcome WriteNpyHeader(const Content& content, ask::FileSink& sink) {
  const write::NpyHeader header =
      write::MakeNpyHeader(content.dtype, content.shape);
  if (!header.stored_as.empty()) {
    fmt::print(stderr, "msitctl: note: .npy has no {}: stored as {}\n",
               DTypeName(content.dtype), header.stored_as);
  }
  const absl::Status status = sink.Write(header.bytes);
  return status.ok() ? ask::Outcome() : ask::LocalError(Message(status));
}

}  // namespace

ask::Outcome ReadTensor(Invocation& invocation, const ReadFlags& flags) {
  const std::string end = std::filesystem::path(flags.out).extension().string();
  if (flags.format.empty() && !end.empty() && end != ".npy" && end != ".raw" &&
      end != ".bin") {
    return ask::UsageError(
        fmt::format("--out {}: the file name must end in .npy, .raw or .bin; "
                    "otherwise, use --format",
                    flags.out));
  }
  const std::string format = !flags.format.empty() ? flags.format
                             : end == ".npy"       ? "npy"
                                                   : "raw";
  if (format != "raw" && format != "npy") {
    return ask::UsageError(
        fmt::format("--format \"{}\" is not raw or npy", flags.format));
  }
  // Held before the file is created, so that an interrupt removes it.
  const ask::Interrupts::Hold hold(invocation.interrupts());
  auto sink = ask::FileSink::Open(
      flags.out, invocation.options().terminal.stdout_is_terminal);
  if (!sink.ok()) return ask::LocalError(Message(sink.status()));
  v1::Tensor tensor;
  MSITCTL_RETURN_IF_FAILED(invocation.AskByName(
      &v1::TensorService::Stub::GetTensor, flags.name, tensor));
  const Content content = ContentOf(tensor, flags.sample);
  if (format == "npy" || flags.sample) {
    MSITCTL_RETURN_IF_FAILED(CheckDType(content));
  }
  if (format == "npy") {
    MSITCTL_RETURN_IF_FAILED(WriteNpyHeader(content, *sink));
  }
  ask::Progress progress(invocation.options().progress,
                         invocation.options().terminal.stderr_width);
  int64_t done_bytes = 0;
  const ask::ByteSink write = [&](std::string_view piece) -> absl::Status {
    MSITD_RETURN_IF_ERROR(sink->Write(piece));
    done_bytes += static_cast<int64_t>(piece.size());
    progress.Show(fmt::format("{} of {}", ask::HumanSize(done_bytes),
                              ask::HumanSize(content.size_bytes)),
                  static_cast<double>(done_bytes),
                  static_cast<double>(content.size_bytes));
    return absl::OkStatus();
  };
  MSITCTL_RETURN_IF_FAILED(ask::ReadTensorBytes(
      invocation, {content.name, content.size_bytes, content.is_sample},
      write));
  progress.Clear();
  const absl::Status committed = sink->Commit();
  return committed.ok() ? ask::Outcome() : ask::LocalError(Message(committed));
}

}  // namespace msitd::msitctl
