// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protos/base/dtype.h"

namespace msitd::compare {

// A contiguous range of a tensor along one axis of its grid, and its position
// in the shard that holds it.
struct ShardStretch {
  size_t shard = 0;  // Number of the shard along the axis.
  int64_t begin = 0;
  int64_t length = 0;
};

// How shards form a whole tensor. The tensor is a sum of terms, and each term
// is a grid of shards that are concatenated along the axes.
//
// The shards of a grid are listed term by term. Within a term, the number along
// the last axis varies fastest.
struct ShardGrid {
  struct Axis {
    int dim = 0;       // Dimension of the tensor.
    size_t count = 1;  // Number of shards along the axis.
    // The relative lengths of the sections that each shard consists of. The
    // tensor has the first sections of all shards, then all second sections,
    // and so on. Empty if each shard is a single section.
    std::vector<int64_t> sections = {};
    // Each shard has two sections, and the second ones are in reverse order of
    // the shards. Context parallelism distributes sequences in this way.
    bool is_zigzag = false;

    friend bool operator==(const Axis&, const Axis&) = default;
  };

  // Ascending by `dim`. Empty if each term is a single shard.
  std::vector<Axis> axes;
  size_t term_count = 1;
  // Elements are added in the precision of sums. This can be true for a single
  // term.
  bool is_sum = false;

  size_t shards_per_term() const {
    size_t out = 1;
    for (const Axis& axis : axes) out *= axis.count;
    return out;
  }

  friend bool operator==(const ShardGrid&, const ShardGrid&) = default;
};

// Returns the type of the elements of a sum whose terms have type `term`.
// Floats are added as float32 or float64, integers exactly. A stream of a sum
// has this type, whereas LogicalTensor::dtype is that of the shards.
DType SumDType(DType term);

// Returns the stretches that form an axis, in the order of the tensor. The
// stretches of each shard have ascending positions in the shard. `lengths` has
// one length for each shard of the axis; each is a multiple of the sum of the
// sections.
std::vector<ShardStretch> StretchesOf(const ShardGrid::Axis& axis,
                                      std::span<const int64_t> lengths);

}  // namespace msitd::compare
