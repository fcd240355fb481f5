// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "protos/base/rank_activity.h"

namespace msitd::compare {

// How the ranks of a run stream; from any thread.
using ActivitySource = std::function<RunActivity(std::string_view run)>;

// A rank whose stream has ended may come back in this time; one that has had
// none for so long is told of, and its last token counts as whole. If it still
// has one, what there is of its last token is compared when nothing has come
// for so long.
inline constexpr std::chrono::milliseconds kSilence{10'000};

// Ranks of a comparison that are told of.
inline constexpr size_t kSilentRanksMax = 16;

// What is to be expected of the ranks of an active run.
struct Outlook {
  // A rank that has no stream.
  struct Silent {
    int32_t rank = 0;
    bool has_finished = false;
    // When it was found; no part of what it is.
    std::chrono::system_clock::time_point since = {};

    friend bool operator==(const Silent& a, const Silent& b) {
      return a.rank == b.rank && a.has_finished == b.has_finished;
    }
  };

  // Of the ranks that had a stream: those of which more is on its way.
  std::set<int32_t> going;
  // Nothing more comes of the last token that they have, as far as one can see:
  // their streams have just ended, or go on and nothing came for long.
  std::set<int32_t> stalled;
  // They have had no stream for long.
  std::set<int32_t> closed;
  // So are all others, however many the run may have.
  bool are_others_closed = false;
  // Those that nothing may come of at all; the first kSilentRanksMax.
  std::vector<Silent> silent;

  friend bool operator==(const Outlook&, const Outlook&) = default;
};

// `world_size` is 0 if it is not known.
Outlook OutlookOf(const RunActivity& activity, int32_t world_size,
                  std::chrono::steady_clock::duration silence);

}  // namespace msitd::compare
