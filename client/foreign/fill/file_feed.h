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

// Opens the files of a tree, one at a time. A file that has several entries one
// after another is opened once. Memory: that of the reader, and of one part.
// Thread-compatible.
class FileFeed {
 public:
  FileFeed();
  ~FileFeed();

  // Opens the file of an entry, or takes over the open one.
  absl::Status Open(const trees::TreeEntry& entry);

  // Opens a file that is at hand. Files that it names are not read.
  absl::Status Open(std::shared_ptr<const formats::ByteSource> bytes);

  // Lets go of the file that is open.
  void Close();

  // Of the open file.
  const formats::Attributes& attributes() const;

  // Has the system read the beginning of a file that will be opened soon,
  // without a wait.
  static void ReadAhead(const std::string& path);

  // Goes to the next tensor of the open file that the entry is. Null if there
  // is none left.
  const formats::ForeignTensor* Next(const trees::TreeEntry& entry);

  // The bytes of the tensor that Next returned. Valid until the next call of
  // Next or Open.
  libmsit::TensorSource& source();
  // Why the source failed.
  const absl::Status& source_status() const;

 private:
  class Source;

  absl::Status Reopen();
  // The type of what is asked for, if it has elements of `bytes` bytes.
  std::optional<DType> OfSize(size_t bytes) const;
  // Goes to the first tensor with this name; null if there is none.
  const formats::ForeignTensor* Find(const std::string& name);

  formats::AtbFolders atb_folders_;
  std::string path_;
  // In place of the file at `path_`.
  std::shared_ptr<const formats::ByteSource> bytes_;
  std::shared_ptr<formats::TensorFile> file_;
  // As TreeEntry::dtype.
  DType dtype_ = DType::kUnspecified;
  // Of the open file, once a tensor was not the next one: which tensor has a
  // name.
  std::unordered_map<std::string, size_t> numbers_;
  std::unique_ptr<Source> source_;
};

}  // namespace msitd::fill
