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
#include "daemon/compare/view/view_plan.h"
#include "daemon/compare/work_observer.h"
#include "daemon/compute/pair_metrics.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/summary.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Limits for shards that are read in turns because the order of the whole
// tensor alternates between them. Each of these shards has its own window, and
// the windows share kAssemblyWindowBytesMax. With more than
// kAssemblyWindowBytesMax / kPartBytes shards, a window is smaller than a part,
// and each part is read several times. Tensors with more than
// kInterleavedShardsMax of these shards are refused.
inline constexpr uint64_t kAssemblyWindowBytesMax = uint64_t{64} << 20;
inline constexpr size_t kInterleavedShardsMax = 1024;

// The shards of one side of a pair, and how to join them.
struct TensorSource {
  std::string_view side;              // "golden" or "target".
  storage::RunReader* run = nullptr;  // The run of the shards; never null.
  ShardGrid grid;
  // The stream has only the sampled elements. The caller must have verified
  // with HasJoinedSample that they are available.
  bool is_sampled = false;
  // In the order of the grid, with their parts. They must match the grid, as
  // those of an assembly without a problem do.
  std::vector<storage::TensorInfo> shards;
  // Data that is read ahead: one part for each shard, in the order of the
  // shards, or the samples of all parts of a single shard.
  PartsAhead ahead = {};
  // If not null, the stream has the elements of this view of `leaves`, and
  // `grid`, `shards` and `ahead` are unset. The plan must outlive the stream.
  const ViewPlan* view = nullptr;
  std::vector<TensorSource> leaves = {};
  // The stream computes the summary, because the index does not have it.
  bool is_summarized = false;

  // Returns whether TensorStream::summary is available.
  bool has_summary() const {
    return grid.is_sum || is_sampled || is_summarized;
  }
};

// Memory of one side, which is reused for each tensor. It has at most three
// times kPartBytes and the windows. A view has larger pieces
// (kViewPieceBytesMax, twice for a computed view), and its leaves and the list
// of the elements to copy have memory of their own. All of that is released
// after the view was read: see ReleasePiece.
struct StreamBuffers {
  // Releases the piece of a view. No stream may use it.
  void ReleasePiece() {
    if (piece.size() > 2 * kPartBytes) piece = AlignedBuffer();
  }

  AlignedBuffer part;
  AlignedBuffer piece;
  AlignedBuffer windows;
};

// The elements of one side of a pair, piece by piece. All pieces except for the
// last consist of whole blocks of compute::PairAccumulator, so that metrics do
// not depend on the size of pieces.
//
// Thread-compatible. Borrows the arguments of Open.
class TensorStream {
 public:
  // Errors: DATA_LOSS for shards whose parts are inconsistent (HasAllParts);
  // RESOURCE_EXHAUSTED for more than kInterleavedShardsMax shards that must be
  // read in turns.
  static absl::StatusOr<std::unique_ptr<TensorStream>> Open(
      const TensorSource& source, WorkObserver& observer,
      StreamBuffers& buffers);

  virtual ~TensorStream() = default;
  TensorStream(const TensorStream&) = delete;
  TensorStream& operator=(const TensorStream&) = delete;

  // Type of the elements. For a sum, it differs from that of the shards.
  DType dtype() const { return dtype_; }
  uint64_t element_count() const { return element_count_; }

  // Reads the next piece if all elements of the current piece were taken.
  //
  // Errors: CANCELLED if the observer ends the comparison, which is checked
  // only if several shards form a piece; DATA_LOSS and those of
  // RunReader::ReadPart, which name the side.
  absl::Status Fill();

  // The number of elements that are left in the piece, and the next `elements`
  // of them. They are valid until the next call of Fill.
  uint64_t rest_count() const { return rest_.size() / ElementBytes(dtype_); }
  std::span<const std::byte> Take(uint64_t elements);

  // The summary of all elements so far. Empty unless TensorSource::has_summary.
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
