// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/core/tensor_view.h"
#include "client/import/formats/tensor_file.h"
#include "client/import/trees/tree.h"

namespace msitd::job {

// Opens the files of a tree, one at a time. A file that has several entries one
// after another is opened once. Memory: that of the reader, and of one part.
// Thread-compatible.
class FileFeed {
 public:
  FileFeed();
  ~FileFeed();

  // Opens the file of an entry.
  absl::Status Open(const trees::TreeEntry& entry);

  // Has the system read the beginning of a file that will be opened soon,
  // without a wait.
  static void ReadAhead(const std::string& path);

  // Goes to the next tensor of the open file that the entry is. Null if there
  // is none left.
  const formats::ForeignTensor* Next(const trees::TreeEntry& entry);

  // The bytes of the tensor that Next returned. Valid until the next call of
  // Next or Open.
  client::TensorSource& source();
  // Why the source failed.
  const absl::Status& source_status() const;

 private:
  class Source;

  absl::Status Reopen();

  std::string path_;
  std::unique_ptr<formats::TensorFile> file_;
  bool is_at_begin_ = false;
  std::unique_ptr<Source> source_;
};

// Where a tensor of a file belongs. What the entry leaves open, the file says:
// which input or output of the op it is. If the file does not say it either, it
// is output 0, and its name in the file is part of the op.
TensorKey KeyOf(const trees::TreeEntry& entry,
                const formats::ForeignTensor& tensor);

// The text of the record that the statistics of a tensor become: those of its
// attributes that have a name of kKnownStatistics and a number.
std::string StatisticsOf(const formats::ForeignTensor& tensor);

}  // namespace msitd::job
