// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/token_pace.h"

#include <algorithm>
#include <cmath>

namespace msitd::ingest {

void TokenPace::Report(int64_t token_end, Time now) {
  if (token_end <= token_end_) return;
  if (token_end_ > 0) {
    // Two reports may follow each other immediately, for example at the end of
    // a stream. That must not be mistaken for speed.
    const std::chrono::duration<double> time =
        std::max<std::chrono::nanoseconds>(now - report_time_,
                                           std::chrono::milliseconds(10));
    speed_before_ = speed_;
    speed_ = static_cast<double>(token_end - token_end_) / time.count();
  }
  token_end_ = token_end;
  report_time_ = now;
}

int64_t TokenPace::TokenAhead(Time now) const {
  if (token_end_ == 0) return 0;
  const double speed =
      std::min(speed_.value_or(0), speed_before_.value_or(speed_.value_or(0)));
  const std::chrono::duration<double> time =
      std::min<std::chrono::nanoseconds>(now - report_time_, kReportInterval) +
      kLead;
  const double tokens = std::ceil(speed * time.count()) + 1;
  return token_end_ +
         static_cast<int64_t>(std::min(tokens, static_cast<double>(kAheadMax)));
}

}  // namespace msitd::ingest
