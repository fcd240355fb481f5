// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/pairing_note.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "client/ask/text/text.h"

namespace msitd::msitctl {

namespace {

// Introduces the flags that a comparison suggests.
const char* Introduction(const std::string& first_flag) {
  if (first_flag.starts_with("--allow")) {
    return "the tensors without a counterpart are those that fused attention "
           "omits; to skip them, add";
  }
  if (first_flag.starts_with("--by")) {
    return "shapes differ, and both runs recorded their requests; to compare "
           "rows of equal requests and positions, add";
  }
  return "most tensors without a counterpart would be paired by";
}

void TellViewHints(const v1::Comparison& comparison) {
  for (const v1::ViewHint& hint : comparison.view_hints()) {
    fmt::print(stderr, "msitctl: note: {}; to compare it like that, add\n",
               ask::Printable(hint.finding()));
    for (const std::string& flag : hint.flags()) {
      fmt::print(stderr, "  {}\n", ask::Printable(flag));
    }
    if (!hint.unchecked().empty()) {
      fmt::print(stderr, "  {}\n", ask::Printable(hint.unchecked()));
    }
  }
}

}  // namespace

void TellPairingHints(const v1::Comparison& comparison) {
  TellViewHints(comparison);
  if (comparison.pairing_hints().empty()) return;
  const std::string& first = comparison.pairing_hints(0);
  fmt::print(stderr, "msitctl: note: {}\n", Introduction(first));
  for (const std::string& flag : comparison.pairing_hints()) {
    fmt::print(stderr, "  {}\n", ask::Printable(flag));
  }
  if (first.starts_with("--allow")) {
    fmt::print(stderr, "  it does not check that both runs have them\n");
  }
}

}  // namespace msitd::msitctl
