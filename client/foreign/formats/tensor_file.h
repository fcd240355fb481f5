// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/foreign/formats/byte_source.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

// Files of other tools that contain tensors. README.md lists what each reader
// supports.
namespace msitd::formats {

enum class FileKind : uint8_t {
  kNpy,
  kGeDump,
  kAtb,
  kSafetensors,
  kNpz,
  kTorch,
  kGeStats,
  kGguf,
  kPolygraphy,
  kTransformersTrace,
};

// Returns a word such as "npy".
std::string_view FileKindName(FileKind kind);

// The properties that a container stores in addition to its tensors, keyed by
// the names that it uses.
using Attributes = std::map<std::string, std::string>;

// One tensor of a file, without its bytes.
struct ForeignTensor {
  // The name in the container; empty if it has no names.
  std::string name;
  // The op in a container that has inputs and outputs of several; empty
  // otherwise. `io` and `index` are set as well.
  std::string op;
  // kUnspecified and empty if the container does not specify them.
  Io io = Io::kUnspecified;
  std::string index;
  // The type of the bytes that are delivered.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  // Type and layout as written in the file, such as "<f4" and "FRACTAL_NZ".
  std::string stored_type;
  std::string stored_layout;
  std::vector<int64_t> stored_shape;
  // True if the elements are delivered in `stored_layout` and `stored_shape`,
  // because their arrangement in it is not known. Otherwise, they are delivered
  // in row-major order.
  bool is_as_stored = false;
  Attributes attributes;
  // True if the file has the statistics of the tensor instead of its elements.
  // Those of protos/base/tensor_statistics.h are attributes with these names:
  // numbers as in the file, "nan", "inf" or "-inf". `problem` is also set.
  bool is_statistics = false;
  // True for a tensor that the task did not have, such as an optional input. It
  // has no statistics. `is_statistics` and `problem` are also set.
  bool is_absent = false;
  // Why the tensor has no bytes to deliver. All known properties are set.
  absl::Status problem;
};

class AtbFolders;

// Attributes of a file with objects that are not delivered, such as numbers of
// NumPy beside tensors: their number, and a list of the first.
inline constexpr char kObjectsAttribute[] = "objects";
inline constexpr char kFirstObjectsAttribute[] = "first_objects";

struct OpenOptions {
  // The types of elements of 1 or 2 bytes that NumPy cannot name: it writes
  // `|V1` for 8-bit floats and `<V2` or `|V2` for bfloat16. Default of void1:
  // such tensors have a problem. Default of void2: bfloat16.
  std::optional<DType> void1;
  std::optional<DType> void2;
  // Borrowed. A cache for many files of one dump of ATB. Null: folders are
  // listed again for each file.
  AtbFolders* atb_folders = nullptr;
  // Delivers named tensors in the order of names::EndsBefore if the order in
  // the file has no meaning. This is the case in safetensors files, and in
  // other files if the tensors are sorted by the bytes of their names.
  bool orders_names = false;
};

struct FileEntry;

// A file of another tool, whose tensors are read one after another. Its bytes
// are untrusted: each size is checked against the length of the file before
// memory is allocated. Thread-compatible.
//
//   while (const ForeignTensor* tensor = file->Next()) {
//     if (!tensor->problem.ok()) { ...; continue; }
//     for (;;) { Read(piece) until it returns 0 }
//   }
class TensorFile {
 public:
  TensorFile(FileKind kind, Attributes attributes,
             std::vector<FileEntry> entries);
  ~TensorFile();

  FileKind kind() const { return kind_; }
  const Attributes& attributes() const { return attributes_; }
  size_t tensor_count() const;

  // Moves to the next tensor. The bytes of the previous one need not be read.
  // Returns null after the last tensor. The result is valid during the lifetime
  // of the file.
  const ForeignTensor* Next();

  // Moves to the tensor with this number, counted from 0. It is below
  // tensor_count.
  const ForeignTensor* GoTo(size_t number);

  // Fills the beginning of `out` with the next whole elements of the tensor
  // that Next or GoTo returned, and returns their size in bytes; 0 after the
  // last one. `out` has at least kReadBytesMin bytes. Returns the problem of
  // the tensor if it has one. Next can be called after an error.
  absl::StatusOr<size_t> Read(std::span<std::byte> out);

  // Sorts the tensors by their names, as described at
  // OpenOptions::orders_names. Call it before the first Next.
  void OrderNames();

 private:
  const FileKind kind_;
  const Attributes attributes_;
  std::vector<FileEntry> entries_;
  size_t next_ = 0;
};

// Opens the file at `path`. The name of the file is not used. Returns
// INVALID_ARGUMENT if its kind is not known or its header is invalid, DATA_LOSS
// if it ends within its header, and RESOURCE_EXHAUSTED beyond a limit of
// format_limits.h.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenTensorFile(
    const std::string& path, const OpenOptions& options);

// The same for bytes in memory. `folder` contains other files that the bytes
// refer to; empty if none may be read.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenTensorBytes(
    std::shared_ptr<const ByteSource> bytes, const std::string& folder,
    const OpenOptions& options);

}  // namespace msitd::formats
