// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace msitd::ingest {

// Estimates which token one producer will have reached, from its reports of
// where it is. Thread-compatible.
class TokenPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A producer that goes on reports once a second, at first more often. One
  // that is silent for longer stands still.
  static constexpr std::chrono::seconds kReportInterval{1};
  // The time that a policy may take to reach all ranks.
  static constexpr std::chrono::seconds kLead{1};
  // The most that TokenAhead adds: a policy that begins at a token which no
  // rank reaches would have no effect.
  static constexpr int64_t kAheadMax = 65'536;

  // Takes a report. `token_end`: see IsTokenEnd; it has no effect unless it is
  // higher than before.
  void Report(int64_t token_end, Time now);

  // Returns a token that the producer will not have begun kLead from now if it
  // gets no faster, and at least one behind the next. 0 if it has begun none.
  int64_t TokenAhead(Time now) const;

 private:
  int64_t token_end_ = 0;
  Time report_time_;
  // Tokens a second between the last three reports; `speed_` is the newer one.
  // The lower one counts, so that a jump in the numbering is not taken for
  // speed.
  std::optional<double> speed_;
  std::optional<double> speed_before_;
};

}  // namespace msitd::ingest
