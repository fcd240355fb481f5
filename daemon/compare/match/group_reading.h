// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/group_windows.h"

namespace msitd::compare {

// Loads a group: at once, or in windows if it is too large for that.
// Thread-compatible. Borrows the matcher.
class GroupReading {
 public:
  GroupReading(const GroupMatcher& matcher, GroupKey key)
      : matcher_(matcher), key_(key) {}

  // Returns the group or its next window; not called after the last one, or an
  // error. Errors: as GroupMatcher::Load.
  absl::StatusOr<TensorGroup> Next(storage::StopCheck stop);

 private:
  const GroupMatcher& matcher_;
  const GroupKey key_;
  std::optional<GroupWindows> windows_;  // If there are several.
  size_t next_ = 0;
};

}  // namespace msitd::compare
