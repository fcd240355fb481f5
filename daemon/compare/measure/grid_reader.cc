// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/grid_reader.h"

#include <algorithm>
#include <utility>

#include "protos/base/dtype.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

uint64_t Product(std::span<const int64_t> dims) {
  uint64_t out = 1;
  for (const int64_t dim : dims) out *= static_cast<uint64_t>(dim);
  return out;
}

}  // namespace

GridReader::GridReader(const ShardGrid& grid,
                       std::span<const storage::TensorInfo> shards,
                       std::vector<ShardReader> readers)
    : readers_(std::move(readers)), levels_(grid.axes.size()) {
  const std::span<const int64_t> shape = shards.front().shape;
  size_t step = shards.size();
  for (size_t i = 0; i < levels_.size(); ++i) {
    const ShardGrid::Axis& axis = grid.axes[i];
    const bool is_last = i + 1 == levels_.size();
    const auto begin = static_cast<size_t>(axis.dim) + 1;
    const auto end =
        is_last ? shape.size() : static_cast<size_t>(grid.axes[i + 1].dim);
    // All shards have equal dimensions between two axes.
    uint64_t unit = Product(shape.subspan(begin, end - begin));
    if (is_last) unit *= ElementBytes(shards.front().dtype);
    step /= axis.count;
    std::vector<int64_t> lengths(axis.count);
    for (size_t index = 0; index < axis.count; ++index) {
      lengths[index] = shards[index * step].shape[axis.dim];
    }
    for (const ShardStretch& stretch : StretchesOf(axis, lengths)) {
      const uint64_t length = static_cast<uint64_t>(stretch.length) * unit;
      if (length > 0) {
        levels_[i].blocks.push_back({stretch.shard * step, length});
      }
    }
  }
}

absl::Status GridReader::Read(std::span<std::byte> out) {
  if (levels_.empty()) return readers_.front().Read(out);
  while (!out.empty()) {
    if (run_rest_ == 0) BeginRun();
    const auto run = out.first(std::min<uint64_t>(out.size(), run_rest_));
    MSITD_RETURN_IF_ERROR(readers_[shard_].Read(run));
    run_rest_ -= run.size();
    out = out.subspan(run.size());
    if (run_rest_ == 0) EndRun();
  }
  return absl::OkStatus();
}

// Iteration over the runs of the whole tensor. The levels, one for each axis,
// advance like the digits of a counter, the last one fastest. The value of a
// digit is a stretch of its axis. The sum of the offsets of all digits is the
// number of the shard with the next run. At the end of a run, the last digit
// advances. A digit that passes its last stretch starts again at the first one,
// which completes a round of the digit before it.
void GridReader::BeginRun() {
  shard_ = 0;
  for (const Level& level : levels_) {
    shard_ += level.blocks[level.block].shard_offset;
  }
  const Level& last = levels_.back();
  run_rest_ = last.blocks[last.block].length;
}

void GridReader::EndRun() {
  for (size_t i = levels_.size(); i-- > 0;) {
    Level& level = levels_[i];
    const bool is_last = i + 1 == levels_.size();
    if (!is_last && ++level.round < level.blocks[level.block].length) return;
    level.round = 0;
    if (++level.block < level.blocks.size()) return;
    level.block = 0;
  }
}

}  // namespace msitd::compare
