// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Maximum number of tensors of a run at one rank and token that can be compared
// in windows. Limits the memory for splitting: 24 bytes for each tensor of both
// runs while they are counted, and 16 bytes for each name afterwards.
inline constexpr size_t kSplitTensorsMax = size_t{1} << 21;

// Maximum number of tensors of either run in a window. It is half of the
// maximum of a group, because one window is compared while the next one is
// loaded.
inline constexpr size_t kWindowTensorsMax = kGroupTensorsMax / 2;

// Splits a group with too many tensors for memory into windows that are
// compared one after the other.
//
// A pair must not be split. Windows of consecutive tensors would split pairs
// whose execution order differs between the runs. A window is therefore a set
// of names (PairName of the golden op): all tensors of both runs with one of
// these names, including shards. Windows follow the execution order of the
// golden run, so that their rows have the same order as those of a single
// group. Names that only the target has are in the last windows. The cost of
// each window is one more scan of the group in both runs.
//
// Names are stored as hashes. Two names with equal hashes are in the same
// window, which does not affect their pairs.
//
// Immutable, hence thread-safe.
class GroupWindows {
 public:
  size_t count() const { return count_; }

  // Returns whether tensors of this name are in window `number`. Names that
  // were recorded after the split are in the last window.
  bool Has(size_t number, std::string_view name) const;

 private:
  friend class GroupSplitter;

  struct Name {
    uint64_t hash = 0;
    uint32_t window = 0;
  };

  std::vector<Name> names_;  // Sorted by hash.
  size_t count_ = 0;
};

// Creates the windows from the tensors of a group. Used once, by one thread.
class GroupSplitter {
 public:
  // Adds a tensor of either run. Returns false above kSplitTensorsMax.
  bool Add(std::string_view name, uint64_t sequence, bool is_target);

  // Returns the windows, or nothing if a single name has too many tensors for a
  // window.
  std::optional<GroupWindows> Split();

 private:
  struct Entry {
    uint64_t hash = 0;
    uint64_t sequence = 0;
    bool is_target = false;
  };
  // The tensors of all names with one hash.
  struct Name {
    uint64_t hash = 0;
    // The first one in the golden run or, if it lacks the name, in the target
    // run.
    uint64_t sequence = 0;
    uint32_t golden_count = 0;
    uint32_t target_count = 0;
  };

  std::vector<Name> TakeNames();

  std::vector<Entry> entries_;
  size_t golden_count_ = 0;
  size_t target_count_ = 0;
};

}  // namespace msitd::compare
