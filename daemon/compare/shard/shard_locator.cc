// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/shard_locator.h"

#include <algorithm>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/shape.h"

namespace msitd::compare {

using storage::TensorInfo;

ShardLocator::ShardLocator(const ShardGrid& grid,
                           std::span<const TensorInfo> shards)
    : shards_(shards), shape_(shards.front().shape) {
  size_t stride = 1;
  for (auto axis = grid.axes.rbegin(); axis != grid.axes.rend(); ++axis) {
    MSITD_CHECK(static_cast<size_t>(axis->dim) < shape_.size());
    Cuts cuts{static_cast<size_t>(axis->dim), stride, {}, {0}};
    std::vector<int64_t> lengths(axis->count);
    for (size_t i = 0; i < axis->count; ++i) {
      lengths[i] = shards[i * stride].shape[cuts.dim];
    }
    cuts.stretches = StretchesOf(*axis, lengths);
    for (const ShardStretch& stretch : cuts.stretches) {
      cuts.begins.push_back(cuts.begins.back() + stretch.length);
    }
    shape_[cuts.dim] = cuts.begins.back();
    stride *= axis->count;
    cuts_.push_back(std::move(cuts));
  }
}

uint64_t ShardLocator::element_count() const { return ElementCount(shape_); }

ShardLocator::Location ShardLocator::Find(uint64_t element) const {
  std::vector<int64_t> at(shape_.size());
  for (size_t d = shape_.size(); d-- > 0;) {
    const auto dim = static_cast<uint64_t>(shape_[d]);
    at[d] = static_cast<int64_t>(element % dim);
    element /= dim;
  }
  Location out;
  for (const Cuts& cuts : cuts_) {
    const auto after =
        std::upper_bound(cuts.begins.begin(), cuts.begins.end(), at[cuts.dim]);
    const auto index = static_cast<size_t>(after - cuts.begins.begin()) - 1;
    const ShardStretch& stretch = cuts.stretches[index];
    at[cuts.dim] += stretch.begin - cuts.begins[index];
    out.shard += stretch.shard * cuts.stride;
  }
  MSITD_CHECK(out.shard < shards_.size());
  for (size_t d = 0; d < at.size(); ++d) {
    out.element =
        out.element * static_cast<uint64_t>(shards_[out.shard].shape[d]) +
        static_cast<uint64_t>(at[d]);
  }
  return out;
}

}  // namespace msitd::compare
