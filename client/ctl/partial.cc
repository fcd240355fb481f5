// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/partial.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "client/ctl/text.h"

namespace msitd::ctl {
namespace {

// Ranges that a line names.
constexpr int kRangesShown = 8;

int64_t Count(const RankRanges& ranges) {
  int64_t count = 0;
  for (const v1::RankRange& range : ranges) {
    count += int64_t{range.last()} - range.first() + 1;
  }
  return count;
}

std::string Text(const RankRanges& ranges) {
  std::string out;
  for (int i = 0; i < ranges.size() && i < kRangesShown; ++i) {
    const v1::RankRange& range = ranges[i];
    out += fmt::format("{}{}", i == 0 ? "" : ",", range.first());
    if (range.last() != range.first()) out += fmt::format("-{}", range.last());
  }
  return ranges.size() > kRangesShown ? out + ",..." : out;
}

}  // namespace

void AddPartialFlag(CLI::App& verb, bool& allows) {
  verb.add_flag("--allow-partial", allows,
                "Exit as if all ranks of the run were there; without it, 4 if "
                "some are lacking");
}

std::string PartialText(std::string_view run, const RankRanges& held,
                        const RankRanges& lacking) {
  const int64_t lacking_count = Count(lacking);
  return Printable(
      fmt::format("partial: {} of {} ranks; run {} lacks rank{} {}",
                  Count(held), Count(held) + lacking_count, run,
                  lacking_count == 1 ? "" : "s", Text(lacking)));
}

std::string PartialLines(const v1::Comparison& comparison) {
  std::string out;
  for (const auto& [run, ranks] :
       {std::pair(&comparison.golden_run(), &comparison.golden_ranks()),
        std::pair(&comparison.target_run(), &comparison.target_ranks())}) {
    if (!ranks->partial()) continue;
    out +=
        PartialText(*run, ranks->ranks_held(), ranks->ranks_lacking()) + "\n";
  }
  return out;
}

void PartialNotice::See(const v1::Comparison& comparison) {
  if (comparison.partial()) Tell(PartialLines(comparison));
}

void PartialNotice::Tell(const std::string& lines) {
  if (std::exchange(is_partial_, true)) return;
  if (is_table_) {
    session_.out().Write(lines);
    return;
  }
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    fmt::print(stderr, "msitctl: {}\n", lines.substr(begin, end - begin));
    begin = end + 1;
  }
}

Outcome PartialNotice::End(bool allows_partial) const {
  return {is_partial_ && !allows_partial ? kExitPartial : kExitOk, ""};
}

}  // namespace msitd::ctl
