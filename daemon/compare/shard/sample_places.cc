// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/sample_places.h"

#include <algorithm>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;

uint64_t CountOf(const TensorInfo& shard) {
  return shard.tensor_bytes / ElementBytes(shard.dtype);
}

bool AreSampled(const std::vector<SamplePlaces::Place>& places, uint64_t step) {
  return std::all_of(places.begin(), places.end(), [step](const auto& place) {
    return place.element % step == 0;
  });
}

}  // namespace

SamplePlaces::SamplePlaces(const ShardGrid& grid,
                           std::span<const TensorInfo> shards)
    : shards_(shards), shape_(shards.front().shape), places_(shards.size()) {
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
  const uint64_t count = ElementCount(shape_);
  const uint64_t step = SampleStep(count);
  for (uint64_t element = 0; element < count; element += step) {
    Add(element);
  }
}

void SamplePlaces::Add(uint64_t element) {
  std::vector<int64_t> at(shape_.size());
  for (size_t d = shape_.size(); d-- > 0;) {
    const auto dim = static_cast<uint64_t>(shape_[d]);
    at[d] = static_cast<int64_t>(element % dim);
    element /= dim;
  }
  size_t shard = 0;
  for (const Cuts& cuts : cuts_) {
    const auto behind =
        std::upper_bound(cuts.begins.begin(), cuts.begins.end(), at[cuts.dim]);
    const auto index = static_cast<size_t>(behind - cuts.begins.begin()) - 1;
    const ShardStretch& stretch = cuts.stretches[index];
    at[cuts.dim] += stretch.begin - cuts.begins[index];
    shard += stretch.shard * cuts.stride;
  }
  MSITD_CHECK(shard < shards_.size());
  uint64_t in_shard = 0;
  for (size_t d = 0; d < at.size(); ++d) {
    in_shard = in_shard * static_cast<uint64_t>(shards_[shard].shape[d]) +
               static_cast<uint64_t>(at[d]);
  }
  places_[shard].push_back({sample_count_++, in_shard});
}

bool HasJoinedSample(const ShardGrid& grid,
                     std::span<const TensorInfo> shards) {
  const size_t per_term = grid.shards_per_term();
  MSITD_CHECK(!shards.empty() && shards.size() == grid.term_count * per_term);
  // The sample of a term of one shard is the sample of that shard.
  if (per_term == 1) {
    return std::all_of(shards.begin(), shards.end(), [](const auto& shard) {
      return shard.has_bytes || shard.has_sample;
    });
  }
  for (size_t begin = 0; begin < shards.size(); begin += per_term) {
    const auto term = shards.subspan(begin, per_term);
    const SamplePlaces places(grid, term);
    for (size_t i = 0; i < per_term; ++i) {
      const bool has_them =
          term[i].has_bytes || places.places()[i].empty() ||
          (term[i].has_sample &&
           AreSampled(places.places()[i], SampleStep(CountOf(term[i]))));
      if (!has_them) return false;
    }
  }
  return true;
}

}  // namespace msitd::compare
