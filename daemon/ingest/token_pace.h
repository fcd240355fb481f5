// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace msitd::ingest {

// Estimates, from the reports of one producer, which token it will have reached
// at a later time. Thread-compatible.
class TokenPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // An active producer reports once a second, and more often at first. A
  // producer that is silent for longer is considered to be standing still.
  static constexpr std::chrono::seconds kReportInterval{1};
  // Time that a policy may take to reach all ranks.
  static constexpr std::chrono::seconds kLead{1};
  // Upper bound for the distance that TokenAhead adds. A policy that begins at
  // a token that no rank reaches would have no effect.
  static constexpr int64_t kAheadMax = 65'536;

  // Adds a report. `token_end`: see IsTokenEnd. Ignored unless it is higher
  // than all previous ones.
  void Report(int64_t token_end, Time now);

  // Returns a token that the producer will not have begun kLead from now,
  // provided that it does not get faster, and that is at least one after its
  // next token. Returns 0 if the producer has begun none.
  int64_t TokenAhead(Time now) const;

 private:
  int64_t token_end_ = 0;
  Time report_time_;
  // Tokens per second between the last three reports; `speed_` is the more
  // recent one. The lower one is used, so that a jump in the numbering is not
  // mistaken for speed.
  std::optional<double> speed_;
  std::optional<double> speed_before_;
};

}  // namespace msitd::ingest
