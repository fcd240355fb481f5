// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/file_layout.h"

#include <fmt/format.h>

#include <string>

#include "client/foreign/write/file_name.h"
#include "client/foreign/write/record_name.h"
#include "client/foreign/write/tensor_index.h"
#include "client/foreign/write/writer/npy_header.h"
#include "client/foreign/write/writer/torch_file.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

class FileLayout final : public Layout {
 public:
  explicit FileLayout(ExportContext& context)
      : context_(context), index_(context) {}

  bool is_grouped() const override { return false; }

  absl::Status Add(const v1::Tensor& record) override {
    const auto kind = static_cast<RecordKind>(record.kind());
    if (IsTextOnly(kind)) {
      context_.Count(record);
      return index_.Add(record, {});
    }
    if (const std::string why = WhyNoBytes(record); !why.empty()) {
      context_.AddProblem(record, why);
      return index_.AddLost(record);
    }
    TensorIndex::Location place;
    const absl::Status status = WriteFile(record, kind, place);
    if (IsLost(status)) return index_.AddLost(record);
    MSITD_RETURN_IF_ERROR(status);
    context_.Count(record);
    return index_.Add(record, place);
  }

  absl::Status Finish() override { return index_.Finish(); }

 private:
  absl::Status WriteFile(const v1::Tensor& record, RecordKind kind,
                         TensorIndex::Location& place) {
    const bool is_document = kind == RecordKind::kDocument;
    const bool is_pt = context_.options().format == ExportFormat::kPt;
    const std::string name = RecordFileName(record, is_document ? ".txt"
                                                    : is_pt     ? ".pt"
                                                                : ".npy");
    place.file =
        fmt::format("rank{}/token{}/{}/{}", record.rank(), record.token(),
                    FileName({record.device()}, ""), name);
    MSITD_ASSIGN_OR_RETURN(const auto file,
                           context_.folder().Create(place.file));
    const auto dtype = static_cast<DType>(record.dtype());
    if (is_document) {
      MSITD_RETURN_IF_ERROR(Copy(record, *file));
    } else if (is_pt) {
      MSITD_RETURN_IF_ERROR(WritePt(record, name, *file));
      const std::string_view type = TorchTypeName(dtype);
      if (type != DTypeName(dtype)) place.stored_as = type;
    } else {
      const NpyHeader header =
          MakeNpyHeader(dtype, ShapeOf(record), NpySubstitute::kVoid);
      place.stored_as = header.stored_as;
      MSITD_RETURN_IF_ERROR(file->Write(header.bytes));
      MSITD_RETURN_IF_ERROR(Copy(record, *file));
    }
    return context_.Commit(*file, &record);
  }

  absl::Status Copy(const v1::Tensor& record, OutputFile& file) {
    return context_.Read(
        record, [&file](std::string_view piece) { return file.Write(piece); });
  }

  absl::Status WritePt(const v1::Tensor& record, const std::string& name,
                       OutputFile& file) {
    const std::string stem = name.substr(0, name.rfind('.'));
    return WriteTorchFile(
        file, stem, TorchTensorOf(record),
        [&](TorchSink sink) { return context_.Read(record, sink); });
  }

  ExportContext& context_;
  TensorIndex index_;
};

}  // namespace

std::unique_ptr<Layout> MakeFileLayout(ExportContext& context) {
  return std::make_unique<FileLayout>(context);
}

}  // namespace msitd::write
