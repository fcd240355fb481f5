// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/query/outcome.h"

namespace msitd::ctl {

// Which flags a field of a request was made of: element `[i]` of a repeated
// one of `flags[i]`, such as `--tol 'nl2 <= 1'`.
struct FieldFlags {
  std::string_view field;
  std::vector<std::string> flags;
};

// Returns an error of the daemon about one of `fields` as an error of the flag:
// a usage error, in whose place it stands. Adds what may be meant by a
// predicate that is none. Any other outcome comes back as it is.
Outcome ErrorOfFlag(Outcome outcome, std::span<const FieldFlags> fields);

// Returns what may be meant by a tolerance or condition that is none, such as
// `torch`, `1e-3`, `rtol 1e-3` and `nl2 =< 5`: `; @torch is the preset`. Empty
// if nothing comes to mind.
std::string ToleranceHint(std::string_view text);

// `--tol 'nl2 <= 1'`.
std::string FlagText(std::string_view flag, std::string_view value);

}  // namespace msitd::ctl
