// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"

// Answers about the elements of the tensors of a row. The bytes of a tensor are
// read by this process and not by the page, which receives at most some
// ten thousand numbers for a tensor of any size.
namespace msitd::web {

// Bytes of one tensor that a call reads at most.
inline constexpr int64_t kValueBytesMax = int64_t{64} << 20;
// Elements of each side that page.logits returns.
inline constexpr size_t kTopCount = 10;
// Elements along the last dimension that page.logits reads at most.
inline constexpr int64_t kLogitCountMax = int64_t{1} << 20;

struct ValuesRequest {
  std::string comparison;
  int64_t row = 0;
  // The two dimensions of the slice, and the position in each dimension.
  // Absent: those of DefaultSlice.
  std::optional<std::vector<int64_t>> dims;
  std::optional<std::vector<int64_t>> at;
  // Leaves out the density, so that a large tensor is read only in part.
  bool only_slice = false;
};

// Parses `{"comparison": "c-000001", "row": 7, "dims": [0, 1], "at": [0, 0, 5],
// "only_slice": true}`, of which only the first two members are required.
// Returns a usage error for any other text.
ask::Outcome ParseValuesRequest(const std::string& text, ValuesRequest& out);

// Returns `shape`, and as far as they are available:
//
// - `density`: the number of elements by the magnitude of the golden value and
//   that of the difference, see Density. `is_sample` is true if only the sample
//   of the tensors was read, because only that is stored, or the tensors exceed
//   kValueBytesMax.
// - `largest`: the element with the largest difference, among those.
// - `dims` and `at`: those of the slice, even if it was not read.
// - `slice`: two dimensions of both tensors, see Picture.
//
// `note` and `slice_note` state why something is not available.
ask::Outcome ValuesPage(ask::Connection& connection,
                        const ValuesRequest& request, std::string& json);

// Returns the largest elements of both sides along the last dimension, at one
// position of the others: `top`, ordered by the golden value, each with `id`,
// and for each side `value`, `share`, which is the softmax, and `rank`, from 0.
// NaN has neither share nor rank, and `nan_counts` has their number for golden
// and target. By default, the position is the last one, from which a model
// predicts the next token. `note` states why there are none.
ask::Outcome LogitsPage(ask::Connection& connection,
                        const ValuesRequest& request, std::string& json);

}  // namespace msitd::web
