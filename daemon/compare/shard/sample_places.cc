// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/sample_places.h"

#include <algorithm>

#include "daemon/compare/shard/shard_locator.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/sample.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;

uint64_t CountOf(const TensorInfo& shard) {
  return shard.tensor_bytes / ElementBytes(shard.dtype);
}

bool AreSampled(const std::vector<SamplePlaces::SampledElement>& places,
                uint64_t step) {
  return std::all_of(places.begin(), places.end(), [step](const auto& place) {
    return place.element % step == 0;
  });
}

}  // namespace

SamplePlaces::SamplePlaces(const ShardGrid& grid,
                           std::span<const TensorInfo> shards)
    : places_(shards.size()) {
  const ShardLocator locator(grid, shards);
  const uint64_t count = locator.element_count();
  const uint64_t step = SampleStep(count);
  size_t number = 0;
  for (uint64_t element = 0; element < count; element += step) {
    const ShardLocator::Location at = locator.Find(element);
    places_[at.shard].push_back({number++, at.element});
  }
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
