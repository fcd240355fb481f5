// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/formats/element_reader.h"
#include "client/foreign/formats/stored_tensor.h"
#include "client/foreign/formats/tensor_file.h"

// The results that the reader of one format returns to TensorFile.
namespace msitd::formats {

// A tensor and the location of its elements. A tensor with a problem has no
// location.
struct FileEntry {
  ForeignTensor tensor;
  StoredTensor stored;
  // Set while the tensor is being read.
  std::unique_ptr<ElementReader> reader;
};

// Returns an entry for `tensor`, whose dtype is set and valid, and the location
// of its elements. The shape is that of the tensor, and the type that of both.
// The entry has a problem if CheckShape or CheckPlace returns one.
FileEntry MakeEntry(ForeignTensor tensor, StoredTensor stored);

// Returns an entry that cannot be delivered.
FileEntry MakeProblem(ForeignTensor tensor, absl::Status problem);

// Returns an entry for a tensor that the task did not have.
FileEntry MakeAbsent(ForeignTensor tensor);

// Returns an entry for a tensor whose elements are not in the file. Its
// attributes include its statistics, if any.
FileEntry MakeStatistics(ForeignTensor tensor);

using OpenedFile = absl::StatusOr<std::unique_ptr<TensorFile>>;

}  // namespace msitd::formats
