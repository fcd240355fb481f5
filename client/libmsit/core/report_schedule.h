// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "client/libmsit/core/delivery/delivery_ledger.h"
#include "client/libmsit/core/filter/record_filter.h"
#include "client/libmsit/core/recording_time.h"
#include "client/libmsit/core/stream_tokens.h"
#include "protos/base/stream_coverage.h"

namespace msitd::libmsit {

// Decides when the sender next reports counts, times and tokens to the daemon.
// Thread-compatible: called with the lock of the ledger held.
//
// The sender uses CPU time of the host, so it sleeps while nothing changes.
// Counts and tokens that change while it sleeps must wake it: the schedule
// therefore requests a notification first and then checks once more
// (RecordFilter::Watch, StreamTokens::Await). Otherwise a change between the
// check and the request would be missed. New tokens are polled instead while
// each poll finds some, so that recording threads need not wake the sender for
// every token.
class ReportSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  // The arguments must outlive the object. `interval` is the minimum time
  // between two reports.
  ReportSchedule(std::chrono::milliseconds interval, DeliveryLedger& ledger,
                 RecordFilter& filter, const RecordingTime& time,
                 StreamTokens& tokens)
      : interval_(interval),
        ledger_(ledger),
        filter_(filter),
        time_(time),
        tokens_(tokens) {}

  // Begins a connection, whose daemon needs a report of everything.
  void Restart();

  // Returns when the next report is due; nullopt if everything has been
  // reported. In that case any change wakes the sender. `is_last`: nothing more
  // will be recorded, so the rest is due now.
  std::optional<Clock::time_point> ReportTime(bool is_last);

  // When tokens are next polled; the maximum while no poll is needed.
  Clock::time_point poll_time() const { return poll_time_; }
  // Polls if it is time. Returns true if there are tokens to report.
  bool PollTokens();
  // Polls at once, because StreamTokens::Begin has returned `token`.
  void OnAwaited(StreamTokens::Awaited token);

  // The state to report now.
  struct Report {
    StreamCoverage coverage;
    // See Transport::ReportCoverage.
    int64_t token_end = 0;
  };
  // Returns the report, and schedules the next one.
  Report TakeReport();

 private:
  bool HasBegunTokens() const { return tokens_.end() > reported_token_end_; }

  const std::chrono::milliseconds interval_;
  DeliveryLedger& ledger_;
  RecordFilter& filter_;
  const RecordingTime& time_;
  StreamTokens& tokens_;

  Clock::time_point report_time_;
  Clock::time_point poll_time_;
  std::chrono::milliseconds poll_interval_{0};
  int64_t reported_token_end_ = 0;
  uint64_t reported_ticks_ = 0;
};

}  // namespace msitd::libmsit
