// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/pairing_note.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "client/ask/text/text.h"

namespace msitd::msitctl {

void TellPairingHints(const v1::Comparison& comparison) {
  if (comparison.pairing_hints().empty()) return;
  const bool allows = comparison.pairing_hints(0).starts_with("--allow");
  fmt::print(stderr, "msitctl: note: {}\n",
             allows ? "the tensors without a counterpart are those that fused "
                      "attention omits; to skip them, add"
                    : "most tensors without a counterpart would be paired by");
  for (const std::string& flag : comparison.pairing_hints()) {
    fmt::print(stderr, "  {}\n", ask::Printable(flag));
  }
  if (allows) {
    fmt::print(stderr, "  it does not check that both runs have them\n");
  }
}

}  // namespace msitd::msitctl
