// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/ask/query/outcome.h"

namespace msitd::msitctl {

// The flags that a field of a request was made from. Element `[i]` of a
// repeated field came from `flags[i]`, such as `--tol 'nl2 <= 1'`.
struct FieldFlags {
  std::string_view field;
  std::vector<std::string> flags;
};

// Turns an error of the daemon about one of `fields` into a usage error of its
// flag. If it is about a predicate, adds what may have been meant. Returns any
// other outcome as it is.
ask::Outcome ErrorOfFlag(ask::Outcome outcome,
                         std::span<const FieldFlags> fields);

// Guesses what was meant by an invalid tolerance or condition such as `torch`,
// `1e-3`, `rtol 1e-3` or `nl2 =< 5`. Returns a hint like `; @torch is the
// preset`, or nothing.
std::string ToleranceHint(std::string_view text);

// Returns a flag with its value as typed: `--tol 'nl2 <= 1'`.
std::string FlagText(std::string_view flag, std::string_view value);

}  // namespace msitd::msitctl
