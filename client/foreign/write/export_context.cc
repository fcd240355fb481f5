// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/export_context.h"

#include "client/ask/query/connection.h"
#include "client/ask/query/tensor_bytes.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::write {

absl::Status ExportContext::Read(const v1::Tensor& tensor,
                                 const ask::ByteSink& sink) {
  if (tensor.size_bytes() == 0) return absl::OkStatus();
  absl::Status written;
  const ask::Outcome outcome = reads_.Read(
      {tensor.name(), tensor.size_bytes()},
      [&](std::string_view piece) { return written = sink(piece); });
  if (!written.ok()) return written;
  if (outcome.ok()) return absl::OkStatus();
  if (ask::IsOfTensor(outcome)) {
    AddProblem(tensor, outcome.error);
    return absl::DataLossError("a tensor could not be read");
  }
  outcome_ = outcome;
  return absl::CancelledError("the daemon does not answer");
}

absl::Status ExportContext::Ask(const v1::ListTensorsRequest& request,
                                v1::ListTensorsResponse& response) {
  const ask::Outcome outcome =
      connection_.Ask(&v1::TensorService::Stub::ListTensors, request, response);
  if (outcome.ok()) return absl::OkStatus();
  outcome_ = outcome;
  return absl::CancelledError("the daemon does not answer");
}

absl::Status ExportContext::Commit(OutputFile& file, const v1::Tensor* tensor) {
  if (tensor != nullptr) SetTime(*tensor, file);
  const absl::Status status = file.Commit();
  if (tensor != nullptr && absl::IsAlreadyExists(status)) {
    AddProblem(*tensor, "another record has the name of its file");
    return absl::DataLossError("a file is there");
  }
  if (status.ok()) ++counts_.file_count;
  return status;
}

void ExportContext::SetTime(const v1::Tensor& tensor, OutputFile& file) const {
  constexpr int64_t kStepNs = 1000;
  const auto& begin = run_.create_time();
  const int64_t step = has_known_order_ ? tensor.sequence() : 0;
  file.SetTime(begin.seconds() * 1'000'000'000 + begin.nanos() +
               step * kStepNs);
}

void ExportContext::AddProblem(const v1::Tensor& tensor,
                               std::string_view reason) {
  ++counts_.problem_count;
  last_problem_ = reason;
  if (listener_.problem) listener_.problem(tensor.name(), reason);
}

void ExportContext::Count(const v1::Tensor& tensor, bool with_bytes) {
  const auto kind = static_cast<RecordKind>(tensor.kind());
  if (IsValue(kind)) {
    ++counts_.value_count;
  } else if (kind == RecordKind::kStatistics) {
    ++counts_.statistics_count;
  } else if (kind == RecordKind::kDocument) {
    ++counts_.document_count;
  } else {
    ++counts_.tensor_count;
    if (with_bytes) counts_.size_bytes += tensor.size_bytes();
  }
  if (listener_.progress) listener_.progress(counts_);
}

ask::Outcome ExportContext::OutcomeOf(const absl::Status& status) const {
  if (status.ok()) return {};
  return outcome_.ok() ? ask::LocalError(Message(status)) : outcome_;
}

}  // namespace msitd::write
