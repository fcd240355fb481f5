// SPDX-License-Identifier: Apache-2.0
#include "client/export/tensor_index.h"

#include "client/export/writer/json_writer.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::exports {
namespace {

constexpr char kIndexName[] = "tensors.jsonl";

void AddFieldIfAny(JsonWriter& out, std::string_view key,
                   std::string_view text) {
  if (!text.empty()) out.Field(key, text);
}

void AppendKey(const v1::Tensor& record, JsonWriter& out) {
  out.Field("name", record.name())
      .Field("rank", int64_t{record.rank()})
      .Field("device", record.device())
      .Field("token", record.token())
      .Field("op", record.op())
      .Field("call", int64_t{record.call()})
      .Field("io", IoName(static_cast<Io>(record.io())))
      .Field("index", record.index());
}

}  // namespace

std::vector<int64_t> ShapeOf(const v1::Tensor& record) {
  return {record.shape().begin(), record.shape().end()};
}

std::string WhyNoBytes(const v1::Tensor& record) {
  if (!IsValid(static_cast<DType>(record.dtype()))) {
    return "this msitctl does not know its dtype";
  }
  if (record.has_bytes()) return "";
  return record.has_sample() ? "only a sample of its bytes is kept"
                             : "its bytes were given up or never kept";
}

absl::Status TensorIndex::Add(const v1::Tensor& record, const Place& place) {
  if (file_ == nullptr) {
    MSITD_ASSIGN_OR_RETURN(file_, context_.folder().Create(kIndexName));
  }
  JsonWriter out(/*indent=*/0);
  out.BeginObject();
  AddFieldIfAny(out, "file", place.file);
  AddFieldIfAny(out, "member", place.member);
  AppendKey(record, out);
  const auto kind = static_cast<RecordKind>(record.kind());
  out.Field("kind", RecordKindName(kind));
  if (!IsValue(kind) || !IsTextOnly(kind)) {
    out.Field("dtype", DTypeName(static_cast<DType>(record.dtype())));
    out.Key("shape").BeginList();
    for (const int64_t extent : record.shape()) out.Number(extent);
    out.EndList();
    out.Field("size_bytes", record.size_bytes());
  }
  AddFieldIfAny(out, "stored_as", place.stored_as);
  if (HasValueText(kind)) out.Field("value", record.value());
  if (record.has_requires_grad()) {
    out.Key("requires_grad").Bool(record.requires_grad());
  }
  out.Field("sequence", record.sequence());
  AddFieldIfAny(out, "hash", record.hash());
  AddFieldIfAny(out, "problem", place.problem);
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

}  // namespace msitd::exports
