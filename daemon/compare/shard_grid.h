// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace msitd::compare {

// Which shards make a tensor, and how: terms that are added, each of them a
// grid of shards that are joined. Shards come term by term, in a term with the
// last axis counting first.
struct ShardGrid {
  struct Axis {
    int dim = 0;       // Of the tensor.
    size_t count = 1;  // Shards along it.

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

}  // namespace msitd::compare
