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

}  // namespace msitd::storage
