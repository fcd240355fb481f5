// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "protos/status/status.h"

namespace msitd::storage {

// Marks an error as one of the archive at `url`, not of the requested tensor:
// SOURCE_FAILED. Returns OK unchanged.
inline absl::Status OfArchive(absl::Status status, std::string_view url) {
  if (status.ok()) return status;
  return WithReason(WithMetadata(std::move(status), "archive", url),
                    ErrorReason::kSourceFailed);
}

// True for an error of archiving that persists until an operator acts: damage,
// another run with the same name, a deleted run. All others may be temporary: a
// server that does not respond, a full disk, missing permissions, a directory
// that is not mounted.
inline bool IsPermanentArchiveError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnimplemented:
      return true;
    case absl::StatusCode::kNotFound:
      return HasReason(status, ErrorReason::kRunNotFound);
    case absl::StatusCode::kAborted:
      return HasReason(status, ErrorReason::kRunReplaced);
    default:
      return false;
  }
}

}  // namespace msitd::storage
