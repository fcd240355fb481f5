// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_mapping.h"

namespace msitd::compare {

// Reason of pairs whose line in the mapping has none.
inline constexpr std::string_view kByTheMapping = "by the mapping";

// Parses the bytes of an attachment as a mapping. Each line is a
// msitd.v1.MappingLine as JSON. The bytes are untrusted. Memory is limited to
// one line and the mapping.
//
// Thread-compatible.
class MappingParser {
 public:
  // Parses the next bytes. Must not be called after an error.
  //
  // Errors: INVALID_ARGUMENT with the line and the reason. Example: `line 3:
  // target.op: is empty`.
  absl::Status Append(std::string_view bytes);

  // Returns the mapping. Must be called once, after all bytes were appended.
  // Errors: as Append.
  absl::StatusOr<TensorMapping> Finish();

 private:
  absl::Status TakeLine(std::string_view line);

  TensorMapping mapping_;
  std::string line_;  // The beginning of a line that is not complete yet.
  int line_count_ = 0;
};

}  // namespace msitd::compare
