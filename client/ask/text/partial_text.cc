// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/partial_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/text/conclusion.h"
#include "client/ask/text/text.h"
#include "protos/base/rank_set_message.h"

namespace msitd::ask {
namespace {

// Returns the prefix of a count that may be incomplete.
std::string_view AtLeast(bool is_cut) { return is_cut ? "at least " : ""; }

// `partial: run tp8 lacks 990 dropped and 10 truncated records`; empty if the
// run lacks none.
std::string LossesLine(const std::string& run, const v1::RunLosses& losses) {
  std::vector<std::string> counts;
  const auto add = [&counts](int64_t count, std::string_view what) {
    if (count > 0) counts.push_back(fmt::format("{} {}", count, what));
  };
  add(losses.dropped_count(), "dropped");
  add(losses.truncated_count(), "truncated");
  add(losses.incomplete_count(), "incomplete");
  add(losses.lost_count(), "lost");
  std::string out;
  if (losses.unread_place_count() > 0) {
    out = Printable(fmt::format(
              "partial: run {} may lack tensors, because {} place{} of the "
              "daemon's log could not be read; see msitctl node status",
              run, losses.unread_place_count(),
              losses.unread_place_count() == 1 ? "" : "s")) +
          "\n";
  }
  if (counts.empty()) return out;
  const bool is_one = losses.dropped_count() + losses.truncated_count() +
                          losses.incomplete_count() + losses.lost_count() ==
                      1;
  return out +
         Printable(fmt::format("partial: run {} lacks {} record{}", run,
                               fmt::join(counts, ", "), is_one ? "" : "s")) +
         "\n";
}

}  // namespace

std::string PartialText(std::string_view run, const RankRanges& held,
                        const RankRanges& lacking) {
  const int64_t held_count = RankSetOf(held).count();
  const RankSet lacking_ranks = RankSetOf(lacking);
  const int64_t lacking_count = lacking_ranks.count();
  const bool is_held_cut = held.size() >= kRankRangesMax;
  const bool is_cut = is_held_cut || lacking.size() >= kRankRangesMax;
  return Printable(
      fmt::format("partial: {}{} of {}{} ranks; run {} lacks rank{} {}",
                  AtLeast(is_held_cut), held_count, AtLeast(is_cut),
                  held_count + lacking_count, run,
                  lacking_count == 1 ? "" : "s", lacking_ranks.Text()));
}

bool LacksRanks(const v1::Comparison& comparison) {
  return comparison.golden_ranks().partial() ||
         comparison.target_ranks().partial();
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
  out += LossesLine(comparison.golden_run(), comparison.golden_losses());
  out += LossesLine(comparison.target_run(), comparison.target_losses());
  if (comparison.not_compared_count() > 0) {
    out += Printable(fmt::format(
               "partial: {} of {} rows could not be compared; the first: {}",
               comparison.not_compared_count(), RowCountOf(comparison),
               comparison.first_not_compared().reason())) +
           "\n";
  }
  return out;
}

std::string RunPlaceText(const std::string& run, const std::string& source) {
  return Printable(source.empty() ? run : fmt::format("{} at {}", run, source));
}

}  // namespace msitd::ask
