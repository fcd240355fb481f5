// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_mapping.h"

namespace msitd::compare {

// What rows say of pairs whose line has no reason.
inline constexpr std::string_view kByTheMapping = "by the mapping";

// Makes a mapping of the bytes of an attachment, whose lines are JSON of
// msitd.v1.MappingLine. The bytes are of a stranger. Holds one line of them,
// and the mapping. Thread-compatible.
class MappingParser {
 public:
  // Takes the next bytes. After an error nothing more may be given to it.
  //
  // Errors: INVALID_ARGUMENT with the line and what is wrong about it:
  // `line 3: target.op: is empty`.
  absl::Status Append(std::string_view bytes);

  // Call it once, behind all bytes. Fails as Append does.
  absl::StatusOr<TensorMapping> Finish();

 private:
  absl::Status TakeLine(std::string_view line);

  TensorMapping mapping_;
  std::string line_;  // What there is of the one that has not ended.
  int line_count_ = 0;
};

}  // namespace msitd::compare
