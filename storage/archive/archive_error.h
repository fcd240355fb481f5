// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "protos/status/status.h"

namespace msitd::storage {

// Marks an error as one of the archive at `url`, which says nothing of the
// tensor that was asked for: SOURCE_FAILED. OK stays as it is.
inline absl::Status OfArchive(absl::Status status, std::string_view url) {
  if (status.ok()) return status;
  return WithReason(WithMetadata(std::move(status), "archive", url),
                    ErrorReason::kSourceFailed);
}

// True for an error of archiving that stays until somebody acts: damage,
// another run in the way, a run that is gone. All others may pass: a server
// that does not answer, a full disk, rights that are missing, a directory that
// is not mounted.
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
