// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/group_windows.h"
#include "daemon/compare/match/request_reading.h"

namespace msitd::compare {

// Loads one group: as a whole, request by request if rows are compared by
// request, or in windows if it is too large.
//
// Thread-compatible. Borrows the matcher.
class GroupReading {
 public:
  GroupReading(const GroupMatcher& matcher, GroupKey key)
      : matcher_(matcher), key_(key) {
    if (matcher.request_join() != nullptr) requests_.emplace(matcher, key);
  }

  // Returns the group or its next window. Must not be called after the last
  // window or after an error. Errors: as GroupMatcher::Load.
  absl::StatusOr<TensorGroup> Next(storage::StopCheck stop);

 private:
  const GroupMatcher& matcher_;
  const GroupKey key_;
  // Nothing if rows are not compared by request.
  std::optional<RequestReading> requests_;
  // Nothing if the group is loaded as a whole.
  std::optional<GroupWindows> windows_;
  size_t next_ = 0;
};

}  // namespace msitd::compare
