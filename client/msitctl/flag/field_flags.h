// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/ask/query/outcome.h"

namespace msitd::msitctl {

// The flags for a field of a request. Element `[i]` of a repeated field
// corresponds to `flags[i]`, such as `--tol 'nl2 <= 1'`.
struct FieldFlags {
  std::string_view field;
  std::vector<std::string> flags;
};

// Converts an error of the daemon about one of `fields` to a usage error of its
// flag. For a predicate, adds a suggestion. Returns any other outcome
// unchanged.
ask::Outcome ErrorOfFlag(ask::Outcome outcome,
                         std::span<const FieldFlags> fields);

// Suggests a correction for an invalid tolerance or condition such as `torch`,
// `1e-3`, `rtol 1e-3` or `nl2 =< 5`. Returns a hint like `; @torch is the
// preset`, or nothing.
std::string ToleranceHint(std::string_view text);

// Returns a flag with its value as typed: `--tol 'nl2 <= 1'`.
std::string FlagText(std::string_view flag, std::string_view value);

}  // namespace msitd::msitctl
