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

// Reads the bytes of one term of a grid in the order of the whole tensor: a run
// of bytes from one shard, then a run from another, and so on. Every shard is
// read from its begin to its end.
//
// Thread-compatible. Borrows what the readers borrow.
class GridReader {
 public:
  // `shards`, and a reader for each, are those of one term.
  GridReader(const ShardGrid& grid, std::span<const storage::TensorInfo> shards,
             std::vector<ShardReader> readers);

  // Fills `out` with the next bytes. At least that many are left. Errors: those
  // of ShardReader::Read.
  absl::Status Read(std::span<std::byte> out);

 private:
  // A stretch of an axis that is not empty.
  struct Block {
    size_t shard_offset;
    // On the last axis: the bytes of a run. On another: how often the axes
    // behind it are gone through.
    uint64_t length;
  };
  struct Level {
    std::vector<Block> blocks;
    size_t block = 0;
    uint64_t round = 0;  // Of the block.
  };

  void BeginRun();
  void EndRun();

  std::vector<ShardReader> readers_;
  std::vector<Level> levels_;  // One for each axis.
  size_t shard_ = 0;
  uint64_t run_rest_ = 0;
};

}  // namespace msitd::compare
