// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msitd::compare {

// A stretch of a tensor along an axis, and where it lies in a shard.
struct ShardStretch {
  size_t shard = 0;  // Along the axis.
  int64_t begin = 0;
  int64_t length = 0;
};

// Which shards make a tensor, and how: terms that are added, each of them a
// grid of shards that are joined. Shards come term by term, in a term with the
// last axis counting first.
struct ShardGrid {
  struct Axis {
    int dim = 0;       // Of the tensor.
    size_t count = 1;  // Shards along it.
    // The lengths of the sections of each shard, in proportion: in the tensor
    // the first sections of all shards come first. None: each is one.
    std::vector<int64_t> sections = {};
    // The second of two sections come in the reverse order of the shards.
    bool is_zigzag = false;

    friend bool operator==(const Axis&, const Axis&) = default;
  };

  // Ascending by `dim`; none if a term is a single shard.
  std::vector<Axis> axes;
  size_t term_count = 1;
  // Elements are added in the precision of sums, of a single term as well.
  bool is_sum = false;

  size_t shards_per_term() const {
    size_t out = 1;
    for (const Axis& axis : axes) out *= axis.count;
    return out;
  }

  friend bool operator==(const ShardGrid&, const ShardGrid&) = default;
};

// What an axis is made of, in the order of the tensor; the stretches of a shard
// ascend. `lengths` are those of its shards, each a multiple of the sum of the
// sections.
std::vector<ShardStretch> StretchesOf(const ShardGrid::Axis& axis,
                                      std::span<const int64_t> lengths);

}  // namespace msitd::compare
