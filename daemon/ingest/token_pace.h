// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace msitd::ingest {

// At which token one producer is, and how fast it goes on, from what it tells
// now and then. Thread-compatible.
class TokenPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A producer that goes on tells once a second, at first more often; one that
  // is silent for longer stands still.
  static constexpr std::chrono::seconds kTellInterval{1};
  // What a policy may take until it holds in all ranks.
  static constexpr std::chrono::seconds kLead{1};
  // A number of tokens that no rank reaches would be as if nothing was asked.
  static constexpr int64_t kAheadMax = 65'536;

  // `token_end`: see IsTokenEnd. 0 says nothing, nor does a lower one than
  // before.
  void Tell(int64_t token_end, Time now);

  // A token that the producer will not have begun kLead from now, if it is no
  // faster than it was: the one behind its highest for every token of the time.
  // 0 if it has begun none.
  int64_t Ahead(Time now) const;

 private:
  int64_t token_end_ = 0;
  Time told_;
  // In tokens a second, between the last tellings, the newest first. The lower
  // one counts: a step to another numbering is no speed.
  std::optional<double> speed_;
  std::optional<double> speed_before_;
};

}  // namespace msitd::ingest
