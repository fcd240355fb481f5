// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/time_limit.h"

#include "protos/status/status.h"

namespace msitd::query {

absl::Status TimeLimit::Check() const {
  MSITD_RETURN_IF_ERROR(stop_());
  if (std::chrono::steady_clock::now() < deadline_) return absl::OkStatus();
  return WithReason(
      absl::DeadlineExceededError("this takes too long at a time; select less"),
      ErrorReason::kQueryTooLong);
}

}  // namespace msitd::query
