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

namespace msitd::peers {

// Further groups of a run are not compared.
inline constexpr size_t kComparedGroupsMax = size_t{1} << 24;
inline constexpr size_t kComparedDevicesMax = size_t{1} << 16;

// The groups of a run, one for each (rank, device, token), and for each group
// whether another run has an equal one. Groups are equal if a comparison cannot
// distinguish them. Needs 48 bytes per group while groups are added and 16
// bytes after Finish. Thread-compatible; several threads may call const
// methods.
class EqualGroups {
 public:
  // Adds a group of the other run. All groups of the other run must be added
  // first, followed by those of this run in primary order.
  //
  // Errors: RESOURCE_EXHAUSTED above kComparedGroupsMax; DATA_LOSS if a group
  // of this run is out of order.
  absl::Status AddOther(const query::GroupDigest& group);
  absl::Status Add(const query::GroupDigest& group);
  // Must be called after the last group.
  void Finish();

  size_t group_count() const { return groups_.size(); }

  // Consecutive groups of this run in primary order: exactly the groups that
  // `selector` matches by ranks, devices and tokens.
  struct Piece {
    bool is_equal = false;
    Selector selector;
  };

  // Splits the groups of this run that `selector` matches into pieces, in
  // primary order.
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
  // Returns the first section of the first rank, at or above `rank`, that has
  // one.
  size_t FirstSectionOf(int32_t rank) const;
  bool IsEqual(const query::GroupDigest& group, uint32_t device) const;

  std::map<std::string, uint32_t> device_numbers_;
  std::vector<std::string> devices_;  // Indexed by device number.
  std::vector<Other> others_;
  bool are_others_sorted_ = false;
  std::vector<Group> groups_;
  std::set<uint32_t> devices_of_rank_;  // Of the last rank.
  // Start of the groups of each rank and device, in order.
  std::vector<size_t> sections_;
};

}  // namespace msitd::peers
