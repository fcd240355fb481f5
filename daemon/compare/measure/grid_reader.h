// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "daemon/compare/measure/shard_reader.h"
#include "daemon/compare/shard/shard_grid.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Reads the bytes of one term of a grid in the order of the whole tensor. It
// copies a run of bytes from one shard, then a run from another, and so on.
// Each shard is read once, from its beginning to its end.
//
// Thread-compatible. Borrows the data that the readers borrow.
class GridReader {
 public:
  // `shards` are those of one term. `readers` has one reader for each of them.
  GridReader(const ShardGrid& grid, std::span<const storage::TensorInfo> shards,
             std::vector<ShardReader> readers);

  // Fills `out` with the next bytes. There must be at least `out.size()` bytes
  // left. Errors: those of ShardReader::Read.
  absl::Status Read(std::span<std::byte> out);

 private:
  // A stretch of an axis with at least one element.
  struct Block {
    size_t shard_offset;
    // On the last axis, the bytes of a run. On other axes, the number of rounds
    // of the next axis.
    uint64_t length;
  };
  struct Level {
    std::vector<Block> blocks;
    size_t block = 0;
    uint64_t round = 0;  // The number of completed rounds of the current block.
  };

  void BeginRun();
  void EndRun();

  std::vector<ShardReader> readers_;
  std::vector<Level> levels_;  // One level for each axis.
  size_t shard_ = 0;
  uint64_t run_rest_ = 0;
};

}  // namespace msitd::compare
