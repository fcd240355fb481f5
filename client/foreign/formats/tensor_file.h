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

// Files of other tools that hold tensors. README.md has what each reader takes.
namespace msitd::formats {

enum class FileKind : uint8_t {
  kNpy,
  kGeDump,
  kAtb,
  kSafetensors,
  kNpz,
  kTorch,
  kGeStats,
};

// Returns a word such as "npy".
std::string_view FileKindName(FileKind kind);

// What a container says beside its tensors, by the name that it uses.
using Attributes = std::map<std::string, std::string>;

// One tensor of a file, without its bytes.
struct ForeignTensor {
  // What the container calls it; empty if it has no names.
  std::string name;
  // kUnspecified and empty if the container does not say.
  Io io = Io::kUnspecified;
  std::string index;
  // As the bytes are delivered.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  // As the file names its type and layout, such as "<f4" and "FRACTAL_NZ".
  std::string stored_type;
  std::string stored_layout;
  std::vector<int64_t> stored_shape;
  // True if the elements come in `stored_layout`, in `stored_shape`, since it
  // is unknown how they lie in it. Otherwise they come in row-major order.
  bool is_as_stored = false;
  Attributes attributes;
  // True if the file has the statistics of the tensor instead of its elements.
  // Those of protos/base/tensor_statistics.h are attributes by these names:
  // numbers as the file has them, "nan", "inf" or "-inf". `problem` is set too.
  bool is_statistics = false;
  // True for one that the task did not have, such as an optional input: its
  // statistics are none. `is_statistics` and `problem` are set too.
  bool is_absent = false;
  // Why it has no bytes to deliver. What is known of it is set.
  absl::Status problem;
};

class AtbFolders;

struct OpenOptions {
  // What an element of 1 or 2 bytes is whose type NumPy could not name: it
  // writes `|V1` for 8-bit floats and `<V2` for bfloat16. Such tensors have a
  // problem where this is not set.
  std::optional<DType> void1;
  std::optional<DType> void2;
  // Borrowed. For many files of one dump of ATB; null: folders are listed anew
  // for each file.
  AtbFolders* atb_folders = nullptr;
  // Tensors that have names come in the order of names::EndsBefore if the file
  // does not have them in an order that says something: in safetensors files,
  // and in others if they are sorted by the bytes of their names.
  bool orders_names = false;
};

struct FileEntry;

// A file of another tool, whose tensors come one after another. Its bytes are
// hostile: each size is checked against the length of the file before memory is
// taken for it. Thread-compatible.
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

  // Goes to the next tensor, whose bytes need not be read. Null behind the last
  // one. Valid as long as the file is.
  const ForeignTensor* Next();

  // The same for the tensor with this number, from 0; it is below tensor_count.
  const ForeignTensor* GoTo(size_t number);

  // Fills the beginning of `out` with the next bytes of the tensor that Next or
  // GoTo returned and returns how many these are: 0 behind the last one. Whole
  // elements; `out` has room for kReadBytesMin. The tensor's problem if it has
  // one; after an error Next goes on.
  absl::StatusOr<size_t> Read(std::span<std::byte> out);

  // Orders the tensors by their names, as OpenOptions::orders_names says.
  // Before the first one is asked for.
  void OrderNames();

 private:
  const FileKind kind_;
  const Attributes attributes_;
  std::vector<FileEntry> entries_;
  size_t next_ = 0;
};

// Opens the file at `path`, whatever it is called. INVALID_ARGUMENT if it is
// of no known kind or its head is wrong, DATA_LOSS if it ends inside of its
// head, RESOURCE_EXHAUSTED beyond a limit of format_limits.h.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenTensorFile(
    const std::string& path, const OpenOptions& options);

// The same for bytes that are at hand. `folder` is where other files lie that
// the bytes name; empty if none may be read.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenTensorBytes(
    std::shared_ptr<const ByteSource> bytes, const std::string& folder,
    const OpenOptions& options);

}  // namespace msitd::formats
