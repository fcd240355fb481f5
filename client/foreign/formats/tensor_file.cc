// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/tensor_file.h"

#include <algorithm>
#include <utility>

#include "client/foreign/formats/atb_file.h"
#include "client/foreign/formats/file_entry.h"
#include "client/foreign/formats/ge/ge_dump_file.h"
#include "client/foreign/formats/ge/ge_stats_file.h"
#include "client/foreign/formats/gguf_file.h"
#include "client/foreign/formats/npy_file.h"
#include "client/foreign/formats/npz_file.h"
#include "client/foreign/formats/polygraphy_file.h"
#include "client/foreign/formats/safetensors_file.h"
#include "client/foreign/formats/torch/torch_file.h"
#include "client/foreign/formats/transformers_trace.h"
#include "client/foreign/formats/zip_archive.h"
#include "client/foreign/names/call_order.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// Sufficient to distinguish all kinds.
constexpr uint64_t kKindBytes = 64;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Returns the reason for refusing a file of another kind, and its conversion.
absl::Status UnknownKind(std::string_view first) {
  if (first.starts_with("\x89HDF\r\n\x1a\n")) {
    return absl::InvalidArgumentError(
        "it is HDF5, which msitd does not read; convert it in Python: import "
        "h5py, numpy; numpy.savez(\"out.npz\", **{k: v[()] for k, v in "
        "h5py.File(\"FILE\").items()})");
  }
  return absl::InvalidArgumentError(
      "it is not a kind of file that msitd can read");
}

OpenedFile OpenNpy(std::shared_ptr<const ByteSource> bytes,
                   const OpenOptions& options) {
  MSITD_ASSIGN_OR_RETURN(FileEntry entry,
                         ReadNpyEntry(std::move(bytes), options));
  std::vector<FileEntry> entries;
  entries.push_back(std::move(entry));
  return std::make_unique<TensorFile>(FileKind::kNpy, Attributes(),
                                      std::move(entries));
}

OpenedFile OpenZip(std::shared_ptr<const ByteSource> bytes,
                   const OpenOptions& options) {
  MSITD_ASSIGN_OR_RETURN(const std::shared_ptr<ZipArchive> archive,
                         ZipArchive::Open(std::move(bytes)));
  if (IsTorch(*archive)) return OpenTorch(archive);
  return OpenNpz(archive, options);
}

}  // namespace

FileEntry MakeProblem(ForeignTensor tensor, absl::Status problem) {
  FileEntry entry;
  entry.tensor = std::move(tensor);
  entry.tensor.problem = std::move(problem);
  return entry;
}

FileEntry MakeEntry(ForeignTensor tensor, StoredTensor stored) {
  absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  tensor.bytes = ElementCount(tensor.shape) * ElementBytes(tensor.dtype);
  stored.dtype = tensor.dtype;
  fits = CheckPlace(stored);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  FileEntry entry;
  entry.tensor = std::move(tensor);
  entry.stored = std::move(stored);
  return entry;
}

FileEntry MakeAbsent(ForeignTensor tensor) {
  tensor.is_absent = true;
  tensor.is_statistics = true;
  return MakeProblem(std::move(tensor),
                     absl::UnimplementedError(
                         "the task did not have it, so the file has no bytes"));
}

FileEntry MakeStatistics(ForeignTensor tensor) {
  tensor.is_statistics = true;
  return MakeProblem(std::move(tensor),
                     absl::UnimplementedError(
                         "the file has its statistics, not its elements"));
}

std::string_view FileKindName(FileKind kind) {
  switch (kind) {
    case FileKind::kNpy:
      return "npy";
    case FileKind::kGeDump:
      return "ge_dump";
    case FileKind::kAtb:
      return "atb";
    case FileKind::kSafetensors:
      return "safetensors";
    case FileKind::kNpz:
      return "npz";
    case FileKind::kTorch:
      return "torch";
    case FileKind::kGeStats:
      return "ge_stats";
    case FileKind::kGguf:
      return "gguf";
    case FileKind::kPolygraphy:
      return "polygraphy";
    case FileKind::kTransformersTrace:
      return "transformers_trace";
  }
  return "unknown";
}

TensorFile::TensorFile(FileKind kind, Attributes attributes,
                       std::vector<FileEntry> entries)
    : kind_(kind),
      attributes_(std::move(attributes)),
      entries_(std::move(entries)) {}

TensorFile::~TensorFile() = default;

size_t TensorFile::tensor_count() const { return entries_.size(); }

const ForeignTensor* TensorFile::Next() {
  if (next_ > 0) entries_[next_ - 1].reader.reset();
  if (next_ == entries_.size()) return nullptr;
  return &entries_[next_++].tensor;
}

const ForeignTensor* TensorFile::GoTo(size_t number) {
  if (next_ > 0) entries_[next_ - 1].reader.reset();
  next_ = number;
  return Next();
}

void TensorFile::OrderNames() {
  const auto name_of = [](const FileEntry& entry) -> const std::string& {
    return entry.tensor.name;
  };
  // If the tensors are in another order than that of the bytes of their names,
  // the order may be intended. The writer of safetensors orders tensors by the
  // sizes of types, then by bytes.
  const bool has_order =
      kind_ != FileKind::kSafetensors &&
      !std::is_sorted(entries_.begin(), entries_.end(),
                      [&](const FileEntry& a, const FileEntry& b) {
                        return name_of(a) < name_of(b);
                      });
  if (has_order) return;
  std::stable_sort(entries_.begin(), entries_.end(),
                   [&](const FileEntry& a, const FileEntry& b) {
                     return names::EndsBefore(name_of(a), name_of(b));
                   });
}

absl::StatusOr<size_t> TensorFile::Read(std::span<std::byte> out) {
  if (next_ == 0) return absl::FailedPreconditionError("no tensor is open");
  FileEntry& entry = entries_[next_ - 1];
  if (!entry.tensor.problem.ok()) return entry.tensor.problem;
  if (entry.reader == nullptr) {
    entry.reader = std::make_unique<ElementReader>(entry.stored);
  }
  return entry.reader->Read(out);
}

namespace {

OpenedFile OpenByContent(std::shared_ptr<const ByteSource> bytes,
                         const std::string& folder,
                         const OpenOptions& options) {
  // A file that was created but has no content yet.
  if (bytes->size() == 0) return absl::DataLossError("it is empty");
  MSITD_ASSIGN_OR_RETURN(
      const std::string first,
      bytes->ReadText(0, std::min(kKindBytes, bytes->size())));
  if (IsNpy(first)) return OpenNpy(std::move(bytes), options);
  if (IsZip(first)) return OpenZip(std::move(bytes), options);
  if (IsGguf(first)) return OpenGguf(std::move(bytes));
  if (IsOldTorch(first)) return OldTorchProblem();
  if (IsGeStats(first)) return OpenGeStats(std::move(bytes));
  if (IsAtb(first)) {
    return OpenAtb(std::move(bytes), folder, options.atb_folders);
  }
  if (IsSafetensors(first, bytes->size())) {
    return OpenSafetensors(std::move(bytes));
  }
  if (IsGeDump(first, bytes->size())) return OpenGeDump(std::move(bytes));
  if (IsTransformersTrace(first)) {
    return OpenTransformersTrace(std::move(bytes), folder);
  }
  if (IsPolygraphy(*bytes)) return OpenPolygraphy(std::move(bytes), options);
  return UnknownKind(first);
}

}  // namespace

OpenedFile OpenTensorBytes(std::shared_ptr<const ByteSource> bytes,
                           const std::string& folder,
                           const OpenOptions& options) {
  auto file = OpenByContent(std::move(bytes), folder, options);
  if (!file.ok() || !options.orders_names) return file;
  const FileKind kind = (*file)->kind();
  if (kind == FileKind::kSafetensors || kind == FileKind::kNpz ||
      kind == FileKind::kTorch) {
    (*file)->OrderNames();
  }
  return file;
}

OpenedFile OpenTensorFile(const std::string& path, const OpenOptions& options) {
  auto source = FileSource::Open(path);
  if (!source.ok()) return Annotate(source.status(), path);
  auto file = OpenTensorBytes(*std::move(source), FolderOf(path), options);
  if (!file.ok()) return Annotate(file.status(), path);
  return file;
}

}  // namespace msitd::formats
