// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/measure/shard_reader.h"
#include "daemon/compare/shard/shard_grid.h"
#include "daemon/compare/work_observer.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/summary.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Shards that are not read one after the other are read in turns, each through
// a window of its own. Beyond kAssemblyWindowBytesMax / kPartBytes of them the
// windows are smaller than a part, and parts are read several times; a tensor
// of more than kInterleavedShardsMax such shards is refused.
inline constexpr uint64_t kAssemblyWindowBytesMax = uint64_t{64} << 20;
inline constexpr size_t kInterleavedShardsMax = 1024;

// One side of a pair.
struct TensorSource {
  std::string_view side;              // "golden", "target".
  storage::RunReader* run = nullptr;  // Of the shards; never null.
  ShardGrid grid;
  // The stream has the sampled elements alone; HasJoinedSample has found that
  // they are there.
  bool is_sampled = false;
  // With their parts, in the order of the grid: what Assemble accepts for it.
  std::vector<storage::TensorInfo> shards;
  // The parts of the shards, one of each and in their order, if they are read
  // ahead; or the samples of all parts of a tensor that has no other shards.
  PartsAhead ahead = {};
};

// Memory of one side, used again for one tensor after another: at most three
// parts and the windows.
struct StreamBuffers {
  AlignedBuffer part;
  AlignedBuffer piece;
  AlignedBuffer windows;
};

// The elements of one side of a pair, piece by piece. Pieces are cut where
// compute::PairAccumulator wants it: all but the last are whole blocks.
//
// Thread-compatible. Borrows what it is made from.
class TensorStream {
 public:
  // Errors: DATA_LOSS for shards whose parts do not make them up;
  // RESOURCE_EXHAUSTED above kInterleavedShardsMax.
  static absl::StatusOr<std::unique_ptr<TensorStream>> Open(
      const TensorSource& source, WorkObserver& observer,
      StreamBuffers& buffers);

  virtual ~TensorStream() = default;
  TensorStream(const TensorStream&) = delete;
  TensorStream& operator=(const TensorStream&) = delete;

  // Type of the elements, which for a sum is not that of the shards.
  DType dtype() const { return dtype_; }
  uint64_t element_count() const { return element_count_; }

  // Makes the next piece once the one before is used up.
  //
  // Errors: CANCELLED once the observer says so, which is asked if a piece is
  // made of several shards; DATA_LOSS and those of ReadPart, which name the
  // side.
  absl::Status Fill();

  // The number of elements left of the piece, and the next of them, which are
  // valid until the next Fill.
  uint64_t rest_count() const { return rest_.size() / ElementBytes(dtype_); }
  std::span<const std::byte> Take(uint64_t elements);

  // The summary of the elements so far, for a sum or a sample; empty for all
  // else.
  const Summary& summary() const { return summary_; }

 protected:
  TensorStream(DType dtype, uint64_t element_count)
      : dtype_(dtype), element_count_(element_count) {}

  virtual absl::StatusOr<std::span<const std::byte>> Next() = 0;

  Summary summary_;

 private:
  const DType dtype_;
  const uint64_t element_count_;
  std::span<const std::byte> rest_;
};

}  // namespace msitd::compare
