// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/stream_watch.h"

#include <algorithm>

namespace msitd::compare {
namespace {

using State = RankActivity::State;

void AddSilent(int32_t rank, bool has_finished,
               std::chrono::steady_clock::duration time, Outlook& out) {
  if (out.silent.size() == kSilentRanksMax) return;
  out.silent.push_back(
      {rank, has_finished,
       std::chrono::system_clock::now() -
           std::chrono::duration_cast<std::chrono::system_clock::duration>(
               time)});
}

}  // namespace

Outlook OutlookOf(const RunActivity& activity, int32_t world_size,
                  std::chrono::steady_clock::duration silence) {
  Outlook out;
  const bool streams = std::any_of(
      activity.ranks.begin(), activity.ranks.end(),
      [](const RankActivity& rank) { return rank.state == State::kOpen; });
  auto next = activity.ranks.begin();
  const int32_t end =
      activity.ranks.empty()
          ? world_size
          : std::max(world_size, activity.ranks.back().rank + 1);
  const bool is_known_long = activity.known_time >= silence;
  for (int32_t rank = 0; rank < end; ++rank) {
    if (next == activity.ranks.end() || next->rank != rank) {
      // It streamed to a daemon before this one, or not yet.
      if (is_known_long) out.closed.insert(rank);
      if (is_known_long && streams) {
        AddSilent(rank, false, activity.known_time, out);
      }
      continue;
    }
    const RankActivity& known = *next++;
    const bool is_long = known.quiet_time >= silence;
    const bool is_open = known.state == State::kOpen;
    const bool has_finished = known.state == State::kFinished;
    if (is_long && !is_open) {
      out.closed.insert(rank);
    } else if (is_long || !is_open) {
      out.stalled.insert(rank);
    }
    if (is_long && !is_open && (streams || !has_finished)) {
      AddSilent(rank, has_finished, known.quiet_time, out);
    }
  }
  return out;
}

}  // namespace msitd::compare
