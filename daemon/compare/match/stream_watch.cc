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
  // Other ranks have streamed to the daemon before it was restarted, or have
  // not streamed yet.
  out.are_others_closed = activity.known_time >= silence;
  const bool streams = std::any_of(
      activity.ranks.begin(), activity.ranks.end(),
      [](const RankActivity& rank) { return rank.state == State::kOpen; });
  const bool tells_of_others = out.are_others_closed && streams;
  int32_t next = 0;
  const auto tell_of_others = [&](int32_t end) {
    for (; next < end && out.silent.size() < kSilentRanksMax; ++next) {
      AddSilent(next, false, activity.known_time, out);
    }
  };
  for (const RankActivity& known : activity.ranks) {
    if (tells_of_others) tell_of_others(known.rank);
    next = known.rank + 1;
    const bool is_long = known.quiet_time >= silence;
    const bool is_open = known.state == State::kOpen;
    const bool has_finished = known.state == State::kFinished;
    if (is_long && !is_open) {
      out.closed.insert(known.rank);
    } else if (is_long || !is_open) {
      out.stalled.insert(known.rank);
    } else {
      out.going.insert(known.rank);
    }
    if (is_long && !is_open && (streams || !has_finished)) {
      AddSilent(known.rank, has_finished, known.quiet_time, out);
    }
  }
  if (tells_of_others) tell_of_others(world_size);
  return out;
}

}  // namespace msitd::compare
