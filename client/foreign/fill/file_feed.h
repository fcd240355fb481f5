// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "client/foreign/formats/atb_reference.h"
#include "client/foreign/formats/byte_source.h"
#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/trees/tree.h"
#include "client/libmsit/core/tensor_view.h"
#include "protos/base/dtype.h"

namespace msitd::fill {

// Opens the files of a tree, one at a time. A file with several consecutive
// entries is opened once. Memory: one reader and one part. Thread-compatible.
class FileFeed {
 public:
  FileFeed();
  ~FileFeed();

  // Opens the file of an entry, or continues with the open one.
  absl::Status Open(const trees::TreeEntry& entry);

  // Opens a file whose bytes are available. Files that it refers to are not
  // read.
  absl::Status Open(std::shared_ptr<const formats::ByteSource> bytes);

  // Closes the open file.
  void Close();

  // The kind and the attributes of the open file.
  formats::FileKind kind() const;
  const formats::Attributes& attributes() const;

  // Requests the operating system to read the beginning of a file that will be
  // opened soon. Does not wait.
  static void ReadAhead(const std::string& path);

  // Moves to the next tensor of the open file that matches the entry. Returns
  // null if there are no more.
  const formats::ForeignTensor* Next(const trees::TreeEntry& entry);

  // The bytes of the tensor that Next returned. Valid until the next call of
  // Next or Open.
  libmsit::TensorSource& source();
  // The error of the source.
  const absl::Status& source_status() const;

 private:
  class Source;

  absl::Status Reopen();
  // Returns the type that the entry specifies, if its elements have `bytes`
  // bytes.
  std::optional<DType> OfSize(size_t bytes) const;
  // Moves to the first tensor with this name. Returns null if there is none.
  const formats::ForeignTensor* Find(const std::string& name);

  formats::AtbFolders atb_folders_;
  std::string path_;
  // Used instead of the file at `path_`.
  std::shared_ptr<const formats::ByteSource> bytes_;
  std::shared_ptr<formats::TensorFile> file_;
  // As TreeEntry::dtype.
  DType dtype_ = DType::kUnspecified;
  // The index of each tensor of the open file by name. Filled once a requested
  // tensor is not the next one.
  std::unordered_map<std::string, size_t> numbers_;
  std::unique_ptr<Source> source_;
};

}  // namespace msitd::fill
