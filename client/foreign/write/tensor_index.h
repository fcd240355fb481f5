// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/foreign/write/export_context.h"

namespace msitd::write {

// Writes `tensors.jsonl`: a line for each record of an export, with the file
// that contains it. Thread-compatible.
class TensorIndex {
 public:
  struct Location {
    std::string file;    // Relative; empty if there is no file.
    std::string member;  // The member of an archive; otherwise empty.
    std::string
        stored_as;  // The type in the file if it cannot specify the dtype.
    std::string problem;  // Why there is no file.
  };

  // Borrows `context`.
  explicit TensorIndex(ExportContext& context) : context_(context) {}

  absl::Status Add(const v1::Tensor& record, const Location& place);

  // Adds a record without a file. The reason is the last problem of the
  // context.
  absl::Status AddLost(const v1::Tensor& record);

  absl::Status Finish();

 private:
  ExportContext& context_;
  std::unique_ptr<OutputFile> file_;
};

// Returns the dimensions of `record`.
std::vector<int64_t> ShapeOf(const v1::Tensor& record);

// Returns why the bytes of a tensor cannot be exported; empty if they can.
std::string WhyNoBytes(const v1::Tensor& record);

}  // namespace msitd::write
