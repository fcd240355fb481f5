// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace msitd {

// Streaming state of a rank.
struct RankActivity {
  enum class State {
    kOpen,      // The rank streams now.
    kFinished,  // The client ended the last stream.
    kBroken,    // The last stream ended in another way.
  };

  int32_t rank = 0;
  State state = State::kOpen;
  // Time since the stream ended, or, while it is open, since its last chunk
  // arrived.
  std::chrono::steady_clock::duration quiet_time{};
};

// Streaming state of the ranks of a run.
struct RunActivity {
  // The ranks that have had a stream since the daemon started, ascending.
  std::vector<RankActivity> ranks;
  // Time since the first stream of the run was opened, or since the daemon
  // started.
  std::chrono::steady_clock::duration known_time{};
};

}  // namespace msitd
