// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace msitd {

// How a rank streams.
struct RankActivity {
  enum class State {
    kOpen,      // It streams now.
    kFinished,  // Its last stream was ended by its client.
    kBroken,    // Its last stream ended in another way.
  };

  int32_t rank = 0;
  State state = State::kOpen;
  // Time since the stream ended; while it is open, since its last chunk came.
  std::chrono::steady_clock::duration quiet_time{};
};

// How the ranks of a run stream.
struct RunActivity {
  // The ranks that have had a stream since the daemon started, ascending.
  std::vector<RankActivity> ranks;
  // Time since the first stream of the run was opened, or since the daemon
  // started.
  std::chrono::steady_clock::duration known_time{};
};

}  // namespace msitd
