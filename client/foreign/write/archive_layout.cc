// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/archive_layout.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "client/foreign/write/file_name.h"
#include "client/foreign/write/record_name.h"
#include "client/foreign/write/tensor_index.h"
#include "client/foreign/write/writer/npy_header.h"
#include "client/foreign/write/writer/safetensors_writer.h"
#include "client/foreign/write/writer/zip_writer.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

// Bytes in an archive for each tensor, in addition to its names.
constexpr size_t kRowBytes = 128;

class ArchiveLayout final : public Layout {
 public:
  explicit ArchiveLayout(ExportContext& context)
      : context_(context), index_(context) {}

  absl::Status BeginGroup(int32_t rank, int64_t token) override {
    rank_ = rank;
    token_ = token;
    part_ = 0;
    return absl::OkStatus();
  }

  absl::Status Add(const v1::Tensor& record) override {
    if (IsTextOnly(static_cast<RecordKind>(record.kind()))) {
      context_.Count(record);
      return index_.Add(record, {});
    }
    if (const std::string why = WhyNoBytes(record); !why.empty()) {
      context_.AddProblem(record, why);
      return index_.AddLost(record);
    }
    const size_t bytes = record.name().size() + kRowBytes;
    if (rows_.size() == kArchiveTensorsMax ||
        row_bytes_ + bytes > kArchiveNameBytesMax) {
      MSITD_RETURN_IF_ERROR(WriteArchive());
    }
    rows_.push_back(record);
    rows_.back().clear_stack();
    row_bytes_ += bytes;
    return absl::OkStatus();
  }

  absl::Status EndGroup() override { return WriteArchive(); }

  absl::Status Finish() override { return index_.Finish(); }

 private:
  absl::Status WriteArchive() {
    if (rows_.empty()) return absl::OkStatus();
    const std::string name =
        fmt::format("rank{}/token{}{}.{}", rank_, token_,
                    part_ == 0 ? std::string() : fmt::format(".{}", part_),
                    ExportFormatName(context_.options().format));
    ++part_;
    std::vector<v1::Tensor> rows = std::exchange(rows_, {});
    row_bytes_ = 0;
    MSITD_ASSIGN_OR_RETURN(const auto file, context_.folder().Create(name));
    return context_.options().format == ExportFormat::kNpz
               ? WriteNpz(rows, name, *file)
               : WriteSafetensors(std::move(rows), name, *file);
  }

  absl::Status WriteNpz(const std::vector<v1::Tensor>& rows,
                        const std::string& path, OutputFile& file) {
    ZipWriter zip(file);
    context_.Expect(rows);
    std::vector<TensorIndex::Location> places;
    for (const v1::Tensor& row : rows) {
      const NpyHeader header = MakeNpyHeader(
          static_cast<DType>(row.dtype()), ShapeOf(row), NpySubstitute::kVoid);
      const std::string member =
          FileName({row.device()}, "") + "/" + RecordFileName(row, "");
      const auto write = [&zip](std::string_view piece) {
        return zip.Write(piece);
      };
      MSITD_RETURN_IF_ERROR(zip.Begin(
          member + ".npy",
          header.bytes.size() + static_cast<uint64_t>(row.size_bytes())));
      MSITD_RETURN_IF_ERROR(zip.Write(header.bytes));
      const absl::Status status = context_.Read(row, write);
      if (IsLost(status)) {
        MSITD_RETURN_IF_ERROR(zip.Drop());
        places.push_back({"", "", "", context_.last_problem()});
        continue;
      }
      MSITD_RETURN_IF_ERROR(status);
      MSITD_RETURN_IF_ERROR(zip.End());
      places.push_back({path, member, header.stored_as, ""});
    }
    MSITD_RETURN_IF_ERROR(zip.Finish());
    return Commit(rows, places, file);
  }

  absl::Status WriteSafetensors(std::vector<v1::Tensor> rows,
                                const std::string& path, OutputFile& file) {
    SafetensorsWriter writer(std::move(rows),
                             {{"msitd.run", context_.options().run},
                              {"msitd.rank", std::to_string(rank_)},
                              {"msitd.token", std::to_string(token_)}},
                             file);
    MSITD_RETURN_IF_ERROR(writer.Begin());
    context_.Expect(writer.rows());
    std::vector<TensorIndex::Location> places;
    for (const v1::Tensor& row : writer.rows()) {
      const absl::Status status = context_.Read(
          row, [&file](std::string_view piece) { return file.Write(piece); });
      if (!status.ok() && !IsLost(status)) return status;
      MSITD_RETURN_IF_ERROR(writer.End(status.ok()));
      places.push_back(
          status.ok()
              ? TensorIndex::Location{path, RecordName(row), writer.stored_as(),
                                      ""}
              : TensorIndex::Location{"", "", "", context_.last_problem()});
    }
    MSITD_RETURN_IF_ERROR(writer.Finish());
    return Commit(writer.rows(), places, file);
  }

  // The index lists a file only once it exists.
  absl::Status Commit(const std::vector<v1::Tensor>& rows,
                      const std::vector<TensorIndex::Location>& places,
                      OutputFile& file) {
    MSITD_RETURN_IF_ERROR(context_.Commit(file));
    for (size_t i = 0; i < rows.size(); ++i) {
      MSITD_RETURN_IF_ERROR(index_.Add(rows[i], places[i]));
      if (places[i].problem.empty()) context_.Count(rows[i]);
    }
    return absl::OkStatus();
  }

  ExportContext& context_;
  TensorIndex index_;
  int32_t rank_ = 0;
  int64_t token_ = 0;
  // The number of archives of this group that were written.
  int part_ = 0;
  std::vector<v1::Tensor> rows_;
  size_t row_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Layout> MakeArchiveLayout(ExportContext& context) {
  return std::make_unique<ArchiveLayout>(context);
}

}  // namespace msitd::write
