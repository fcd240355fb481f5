// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/joined_sample.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "daemon/compare/shard/sample_places.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/sample.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using storage::TensorInfo;

uint64_t CountOf(const TensorInfo& shard) {
  return shard.tensor_bytes / ElementBytes(shard.dtype);
}

using Places = std::vector<SamplePlaces::SampledElement>;

// Copies elements of a shard that has only a sample. They must be in this
// sample.
absl::Status CopySampled(const TensorInfo& shard, const Places& places,
                         ShardReader& reader, std::span<std::byte> out) {
  const size_t width = ElementBytes(shard.dtype);
  const uint64_t step = SampleStep(CountOf(shard));
  std::vector<std::byte> sample;
  for (size_t part = 0; part < shard.parts.size(); ++part) {
    MSITD_ASSIGN_OR_RETURN(const auto bytes, reader.ReadSample(part));
    sample.insert(sample.end(), bytes.begin(), bytes.end());
  }
  MSITD_CHECK(sample.size() == SampleCount(CountOf(shard)) * width);
  for (const auto& [number, element] : places) {
    MSITD_CHECK(element / step * width < sample.size());
    std::memcpy(&out[number * width], &sample[element / step * width], width);
  }
  return absl::OkStatus();
}

// Copies elements of a shard that has its bytes.
absl::Status CopyAny(const TensorInfo& shard, const Places& places,
                     ShardReader& reader, WorkObserver& observer,
                     std::span<std::byte> out) {
  const size_t width = ElementBytes(shard.dtype);
  std::span<const std::byte> bytes;
  uint64_t begin = 0;
  for (const auto& [number, element] : places) {
    const uint64_t at = element * width;
    if (bytes.empty() || at >= begin + kPartBytes) {
      MSITD_RETURN_IF_ERROR(observer.Check());
      MSITD_ASSIGN_OR_RETURN(bytes, reader.ReadPart(at / kPartBytes));
      begin = at / kPartBytes * kPartBytes;
    }
    MSITD_CHECK(at - begin + width <= bytes.size());
    std::memcpy(&out[number * width], &bytes[at - begin], width);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadJoinedSample(const ShardGrid& grid,
                              std::span<const TensorInfo> shards,
                              std::span<ShardReader> readers,
                              WorkObserver& observer,
                              std::span<std::byte> out) {
  const SamplePlaces places(grid, shards);
  for (size_t i = 0; i < shards.size(); ++i) {
    const Places& of_shard = places.places()[i];
    if (of_shard.empty()) continue;
    MSITD_RETURN_IF_ERROR(
        shards[i].has_bytes
            ? CopyAny(shards[i], of_shard, readers[i], observer, out)
            : CopySampled(shards[i], of_shard, readers[i], out));
  }
  return absl::OkStatus();
}

}  // namespace msitd::compare
