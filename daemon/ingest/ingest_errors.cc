// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ingest_errors.h"

#include "protos/status/status.h"

namespace msitd::ingest {

absl::Status NotServing() {
  return WithReason(
      MakeStatus(absl::StatusCode::kUnavailable, "the daemon is going down"),
      ErrorReason::kNotServing);
}

absl::Status RunSealed(std::string_view run, std::string_view what) {
  return WithReason(
      MakeStatus(absl::StatusCode::kFailedPrecondition,
                 "run '{}' {}: it takes no more tensors", run, what),
      ErrorReason::kRunSealed);
}

}  // namespace msitd::ingest
