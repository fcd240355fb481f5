// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// Lists and ranges as they are typed on a command line. Every error is
// INVALID_ARGUMENT and contains the invalid part.
namespace msitd::ask {

// An inclusive range.
struct Range {
  int64_t first = 0;
  int64_t last = 0;

  friend bool operator==(const Range&, const Range&) = default;
};

// "0,2-3" gives {0,0} and {2,3}. Blanks around a part are allowed, an empty
// part is not. Every number is 0 to `number_max`.
absl::StatusOr<std::vector<Range>> ParseRanges(std::string_view text,
                                               int64_t number_max);

// Like ParseRanges, but returns every single rank, ascending and once.
absl::StatusOr<std::vector<int32_t>> ParseRanks(std::string_view text);

// Returns the parts of `texts` between commas, without blanks around them and
// without empty parts.
std::vector<std::string> SplitLists(const std::vector<std::string>& texts);

}  // namespace msitd::ask
