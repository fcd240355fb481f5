// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/formats/element_reader.h"
#include "client/foreign/formats/stored_tensor.h"
#include "client/foreign/formats/tensor_file.h"

// What the reader of one format hands to TensorFile.
namespace msitd::formats {

// A tensor and where its elements lie; no place if it has a problem.
struct FileEntry {
  ForeignTensor tensor;
  StoredTensor stored;
  // Set while it is read.
  std::unique_ptr<ElementReader> reader;
};

// Makes an entry of `tensor`, whose dtype is set and valid, and of the place of
// its elements: takes the shape from the tensor, the type from both. Has a
// problem if CheckShape or CheckPlace has one.
FileEntry MakeEntry(ForeignTensor tensor, StoredTensor stored);

// Makes an entry that cannot be delivered.
FileEntry MakeProblem(ForeignTensor tensor, absl::Status problem);

// Makes an entry of a tensor that the task did not have.
FileEntry MakeAbsent(ForeignTensor tensor);

// Makes an entry of what is known of a tensor beside its elements, which the
// file does not have. Its attributes are, or hold, its statistics.
FileEntry MakeStatistics(ForeignTensor tensor);

using OpenedFile = absl::StatusOr<std::unique_ptr<TensorFile>>;

}  // namespace msitd::formats
