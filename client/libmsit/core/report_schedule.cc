// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/report_schedule.h"

#include <algorithm>

namespace msitd::libmsit {
namespace {

// Reports are frequent at first, so that the daemon soon receives the
// producer's pace. Each interval is twice as long as the previous one.
constexpr std::chrono::milliseconds kFirstPollInterval{32};
constexpr std::chrono::milliseconds kPollIntervalMax{1000};

}  // namespace

void ReportSchedule::Restart() {
  ledger_.ReportAgain();
  reported_ticks_ = 0;
  report_time_ = Clock::now();
  reported_token_end_ = 0;
  poll_time_ = report_time_;
  poll_interval_ = {};
}

std::optional<ReportSchedule::Clock::time_point> ReportSchedule::ReportTime(
    bool is_last) {
  // Times that other threads are still counting are not waited for.
  const bool has_unreported_time = time_.ticks() != reported_ticks_;
  ledger_.SetFiltered(filter_.filtered_count());
  if (!ledger_.has_unreported() && !(is_last && has_unreported_time)) {
    filter_.Watch();
    ledger_.SetFiltered(filter_.filtered_count());
    if (!ledger_.has_unreported()) return std::nullopt;
  }
  return is_last ? Clock::time_point::min() : report_time_;
}

bool ReportSchedule::PollTokens() {
  if (poll_time_ > Clock::now()) return false;
  poll_interval_ =
      std::clamp(poll_interval_ * 2, kFirstPollInterval, kPollIntervalMax);
  poll_time_ = Clock::now() + poll_interval_;
  if (HasBegunTokens() || !tokens_.Await(reported_token_end_)) return true;
  poll_time_ = Clock::time_point::max();
  return false;
}

void ReportSchedule::OnAwaited(StreamTokens::Awaited token) {
  poll_time_ = Clock::now();
  if (token.is_first) poll_interval_ = {};
}

ReportSchedule::Report ReportSchedule::TakeReport() {
  report_time_ = Clock::now() + interval_;
  reported_ticks_ = time_.ticks();
  const RecordingTime::Times times = time_.Read();
  Report report = {.coverage = ledger_.TakeReport()};
  report.coverage.recording_ns = times.recording_ns;
  report.coverage.open_ns = times.open_ns;
  reported_token_end_ = tokens_.end();
  if (reported_token_end_ != 0) {
    report.token_end = reported_token_end_ + tokens_.base();
  }
  return report;
}

}  // namespace msitd::libmsit
