// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/foreign/write/export_context.h"

namespace msitd::write {

// `tensors.jsonl`: a line for each record of an export, which says in which
// file it is. Thread-compatible.
class TensorIndex {
 public:
  struct Place {
    std::string file;       // Relative; empty if it is in none.
    std::string member;     // Of an archive; else empty.
    std::string stored_as;  // If the file cannot name the dtype: what it names.
    std::string problem;    // Why it is in no file.
  };

  // Borrows `context`.
  explicit TensorIndex(ExportContext& context) : context_(context) {}

  absl::Status Add(const v1::Tensor& record, const Place& place);

  // Adds a record without a file: the last problem of the context is why.
  absl::Status AddLost(const v1::Tensor& record);

  absl::Status Finish();

 private:
  ExportContext& context_;
  std::unique_ptr<OutputFile> file_;
};

// Dimensions of `record`.
std::vector<int64_t> ShapeOf(const v1::Tensor& record);

// Why the bytes of a tensor cannot be exported; empty if they can.
std::string WhyNoBytes(const v1::Tensor& record);

}  // namespace msitd::write
