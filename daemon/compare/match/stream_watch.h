// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "protos/base/finding_limits.h"
#include "protos/base/rank_activity.h"

namespace msitd::compare {

// Returns the streaming state of the ranks of a run. Callable from any thread.
using ActivitySource = std::function<RunActivity(std::string_view run)>;

// How long a rank may be silent. Within this time, a rank whose stream has
// ended can resume. After this time without a stream, the rank is reported and
// its last token is considered to be complete. If its stream is open but no
// data arrives for this time, the tensors of its last token that both runs have
// are compared.
inline constexpr std::chrono::milliseconds kSilence{10'000};

// The data that can be expected from the ranks of an active run.
struct Outlook {
  // A rank that has no stream.
  struct Silent {
    int32_t rank = 0;
    bool has_finished = false;
    // When the last data arrived, or the first time at which the rank could
    // have streamed. Ignored by operator==, because it is computed again by
    // each call.
    std::chrono::system_clock::time_point since = {};

    friend bool operator==(const Silent& a, const Silent& b) {
      return a.rank == b.rank && a.has_finished == b.has_finished;
    }
  };

  // Ranks with an open stream from which data arrived recently. More data is
  // expected. Includes only ranks that have had a stream.
  std::set<int32_t> going;
  // Ranks from which no more data of their last token is expected: their stream
  // has just ended, or it is open but no data has arrived for a long time.
  std::set<int32_t> stalled;
  // Ranks that have had no stream for a long time.
  std::set<int32_t> closed;
  // All ranks that are not in these sets are closed as well, regardless of the
  // world size.
  bool are_others_closed = false;
  // Closed ranks that may be missing and should be reported; the first
  // kSilentRanksMax of them.
  std::vector<Silent> silent;

  friend bool operator==(const Outlook&, const Outlook&) = default;
};

// `world_size` is 0 if it is not known. `silence` is the time after which a
// rank is silent, usually kSilence.
Outlook OutlookOf(const RunActivity& activity, int32_t world_size,
                  std::chrono::steady_clock::duration silence);

}  // namespace msitd::compare
