// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/query/group_digest.h"
#include "protos/base/selector.h"
#include "storage/face/types.h"

namespace msitd::fleet {

// More groups of a run are not told apart.
inline constexpr size_t kComparedGroupsMax = size_t{1} << 24;
inline constexpr size_t kComparedDevicesMax = size_t{1} << 16;

// The groups of a run, a (rank, device, token) each, and which of them another
// run has too, equal in all that a comparison can see. Takes 48 bytes a group
// while they are found, 16 later. Thread-compatible; const calls may be made by
// several threads.
class EqualGroups {
 public:
  // Adds a group of the other run, all of which come first; then those of the
  // run, in primary order.
  //
  // Errors: RESOURCE_EXHAUSTED above kComparedGroupsMax; DATA_LOSS for a group
  // of the run that is out of order.
  absl::Status AddOther(const query::GroupDigest& group);
  absl::Status Add(const query::GroupDigest& group);
  // Behind the last one.
  void Finish();

  size_t group_count() const { return groups_.size(); }
  size_t equal_count() const { return equal_count_; }

  // Groups of the run that follow one another in primary order: all those that
  // `selector` takes of its ranks, devices and tokens, and no group of either
  // run besides.
  struct Piece {
    bool is_equal = false;
    Selector selector;
  };

  // Cuts what `selector` takes of the run into pieces, in primary order.
  std::vector<Piece> Cut(const Selector& selector) const;

 private:
  struct Group {
    int32_t rank = 0;
    uint32_t device : 31 = 0;
    uint32_t is_equal : 1 = 0;
    int64_t token = 0;
  };
  static_assert(sizeof(Group) == 16);
  struct Other {
    int32_t rank = 0;
    uint32_t device = 0;
    int64_t token = 0;
    uint64_t record_count = 0;
    ContentHash hash;
  };

  uint32_t DeviceOf(const std::string& name);
  void SortOthers();
  // Of the first rank from `rank` on that has one.
  size_t FirstSectionOf(int32_t rank) const;
  bool IsEqual(const query::GroupDigest& group, uint32_t device) const;

  std::map<std::string, uint32_t> device_numbers_;
  std::vector<std::string> devices_;  // By number.
  std::vector<Other> others_;
  bool are_others_sorted_ = false;
  std::vector<Group> groups_;
  std::set<uint32_t> devices_of_rank_;  // Of the last one.
  // Where the groups of a rank and device begin, in order.
  std::vector<size_t> sections_;
  size_t equal_count_ = 0;
};

}  // namespace msitd::fleet
