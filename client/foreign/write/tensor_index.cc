// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/tensor_index.h"

#include "client/foreign/names/export_index.h"
#include "client/foreign/write/writer/json_writer.h"
#include "protos/base/dtype.h"
#include "protos/base/order_label.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

void AddFieldIfAny(JsonWriter& out, std::string_view key,
                   std::string_view text) {
  if (!text.empty()) out.Field(key, text);
}

void AppendKey(const v1::Tensor& record, JsonWriter& out) {
  out.Field("name", record.name())
      .Field(names::kIndexRank, int64_t{record.rank()})
      .Field(names::kIndexDevice, record.device())
      .Field(names::kIndexToken, record.token())
      .Field(names::kIndexOp, record.op())
      .Field(names::kIndexCall, int64_t{record.call()})
      .Field(names::kIndexIo, IoName(static_cast<Io>(record.io())))
      .Field(names::kIndexIndex, record.index());
}

}  // namespace

std::vector<int64_t> ShapeOf(const v1::Tensor& record) {
  return {record.shape().begin(), record.shape().end()};
}

std::string WhyNoBytes(const v1::Tensor& record) {
  if (!IsValid(static_cast<DType>(record.dtype()))) {
    return "its dtype is unknown to this msitctl";
  }
  if (record.has_bytes()) return "";
  return record.has_sample() ? "only a sample of its bytes is stored"
                             : "its bytes have expired or were never stored";
}

absl::Status TensorIndex::Add(const v1::Tensor& record, const Location& place) {
  if (file_ == nullptr) {
    MSITD_ASSIGN_OR_RETURN(file_,
                           context_.folder().Create(names::kExportIndex));
  }
  JsonWriter out(/*indent=*/0);
  out.BeginObject();
  AddFieldIfAny(out, names::kIndexFile, place.file);
  AddFieldIfAny(out, names::kIndexMember, place.member);
  AppendKey(record, out);
  const auto kind = static_cast<RecordKind>(record.kind());
  out.Field(names::kIndexKind, RecordKindName(kind));
  if (!IsValue(kind) || !IsTextOnly(kind)) {
    out.Field(names::kIndexDType,
              DTypeName(static_cast<DType>(record.dtype())));
    out.Key(names::kIndexShape).BeginList();
    for (const int64_t extent : record.shape()) out.Number(extent);
    out.EndList();
    out.Field("size_bytes", record.size_bytes());
  }
  AddFieldIfAny(out, "stored_as", place.stored_as);
  if (HasValueText(kind)) out.Field(names::kIndexValue, record.value());
  if (record.has_requires_grad()) {
    out.Key(names::kIndexRequiresGrad).Bool(record.requires_grad());
  }
  out.Field(names::kIndexSequence, record.sequence());
  if (!context_.has_known_order()) out.Field(names::kIndexOrder, kUnknownOrder);
  AddFieldIfAny(out, "hash", record.hash());
  AddFieldIfAny(out, names::kIndexProblem, place.problem);
  out.EndObject();
  MSITD_RETURN_IF_ERROR(file_->Write(out.Take()));
  return file_->Write("\n");
}

absl::Status TensorIndex::AddLost(const v1::Tensor& record) {
  return Add(record, {"", "", "", context_.last_problem()});
}

absl::Status TensorIndex::Finish() {
  return file_ == nullptr ? absl::OkStatus() : context_.Commit(*file_);
}

}  // namespace msitd::write
