// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/verb/partial.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "client/ask/text/conclusion.h"

namespace msitd::msitctl {

void AddPartialFlag(CLI::App& verb, bool& allows) {
  verb.add_flag("--allow-partial", allows,
                "Exit as if the result were complete. By default, the exit "
                "code is 4 if ranks or recorded tensors are missing, a daemon "
                "does not answer or rows could not be compared");
}

void AddUndecidedFlag(CLI::App& verb, bool& allows) {
  verb.add_flag("--allow-undecided", allows,
                "Ignore rows that could not be compared, for example because "
                "too little of them is stored. Missing ranks and records still "
                "make the result partial");
}

void PartialNotice::See(const v1::Comparison& comparison) {
  is_partial_ = ask::ConclusionOf(comparison, /*allowed=*/false) ==
                ask::Conclusion::kPartial;
  if (comparison.partial()) Tell(ask::PartialLines(comparison));
}

void PartialNotice::Tell(const std::string& lines) {
  if (std::exchange(has_told_, true)) return;
  if (is_table_) {
    invocation_.out().Write(lines);
    return;
  }
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    fmt::print(stderr, "msitctl: {}\n", lines.substr(begin, end - begin));
    begin = end + 1;
  }
}

ask::Outcome PartialNotice::End(bool allows_partial) const {
  return {is_partial_ && !allows_partial ? ask::kExitPartial : ask::kExitOk,
          ""};
}

}  // namespace msitd::msitctl
