// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_reading.h"

#include "protos/status/status.h"

namespace msitd::compare {

absl::StatusOr<TensorGroup> GroupReading::Next(storage::StopCheck stop) {
  if (requests_.has_value()) return requests_->Next(stop);
  if (!windows_.has_value()) {
    MSITD_ASSIGN_OR_RETURN(TensorGroup group, matcher_.Load(key_, stop));
    if (group.too_large_run.empty()) return group;
    MSITD_ASSIGN_OR_RETURN(windows_, matcher_.Split(key_, stop));
    if (!windows_.has_value() || windows_->count() == 0) return group;
  }
  return matcher_.LoadWindow(key_, *windows_, next_++, stop);
}

}  // namespace msitd::compare
