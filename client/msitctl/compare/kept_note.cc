// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/compare/kept_note.h"

#include <fmt/format.h>

#include <cstdio>

#include "client/ask/text/text.h"
#include "client/msitctl/run/keep_function.h"

namespace msitd::msitctl {
namespace {

std::string TextOf(const std::string& run, const KeepRecord& kept) {
  if (kept.hash.empty()) {
    return fmt::format("{} has tensors without a --keep function",
                       ask::Printable(run));
  }
  return fmt::format("{} has the tensors that {} keeps", ask::Printable(run),
                     kept.ToText());
}

}  // namespace

void TellOfKept(Invocation& invocation, const std::string& golden,
                const std::string& target) {
  KeepRecord of_golden;
  KeepRecord of_target;
  if (!ReadKeepRecord(invocation, golden, of_golden).ok() ||
      !ReadKeepRecord(invocation, target, of_target).ok() ||
      (of_golden.hash.empty() && of_target.hash.empty())) {
    return;
  }
  if (of_golden.is_same(of_target)) {
    fmt::print(
        stderr,
        "msitctl: note: both runs have the tensors that {} keeps: tensors with "
        "a ~ in their index are derived from the recorded ones\n",
        of_golden.ToText());
    return;
  }
  fmt::print(
      stderr,
      "msitctl: note: the runs were imported with different functions: {}, {}; "
      "tensors with a ~ in their index are derived and may not be comparable\n",
      TextOf(golden, of_golden), TextOf(target, of_target));
}

}  // namespace msitd::msitctl
