// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Tensors of a run at one rank and token beyond which they are not even
// compared in windows. Bounds what is held to tell the windows apart: 24 bytes
// for each tensor of both runs while they are counted, and 16 for each name
// after that.
inline constexpr size_t kSplitTensorsMax = size_t{1} << 21;

// Most tensors of either run in a window: one is compared while the next one is
// loaded.
inline constexpr size_t kWindowTensorsMax = kGroupTensorsMax / 2;

// Splits a group that has too many tensors to be held at once into windows that
// are compared one after the other.
//
// A pair must not be cut apart, so a window is a set of names (PairName of the
// golden op): all tensors of both runs that have one of them, shards included.
// Windows follow the execution order of the golden run, so that their rows are
// in the order of one group; names that only the target has come last. A window
// costs one more scan of the group in both runs.
//
// Names are held as hashes. Two that collide are in one window, which changes
// nothing about their pairs.
//
// Immutable, hence thread-safe.
class GroupWindows {
 public:
  size_t count() const { return count_; }

  // Whether tensors of this name are in window `number`. Names that have come
  // since the windows were made are in the last one.
  bool Has(size_t number, std::string_view name) const;

 private:
  friend class GroupSplitter;

  struct Name {
    uint64_t hash = 0;
    uint32_t window = 0;
  };

  std::vector<Name> names_;  // By hash.
  size_t count_ = 0;
};

// Makes windows of the tensors of a group. Used once, by one thread.
class GroupSplitter {
 public:
  // Adds a tensor of either run; false above kSplitTensorsMax.
  bool Add(std::string_view name, uint64_t sequence, bool is_target);

  // Returns the windows; nothing if a name has more tensors than one takes.
  std::optional<GroupWindows> Split();

 private:
  struct Entry {
    uint64_t hash = 0;
    uint64_t sequence = 0;
    bool is_target = false;
  };
  // All tensors of one hash.
  struct Name {
    uint64_t hash = 0;
    uint64_t sequence = 0;  // The first one.
    uint32_t golden_count = 0;
    uint32_t target_count = 0;
  };

  std::vector<Name> TakeNames();

  std::vector<Entry> entries_;
  size_t golden_count_ = 0;
  size_t target_count_ = 0;
};

}  // namespace msitd::compare
