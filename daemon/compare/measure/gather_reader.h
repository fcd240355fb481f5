// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "daemon/compare/measure/leaf_reader.h"
#include "daemon/compare/view/gather.h"
#include "daemon/compare/view/read_cost.h"

namespace msitd::compare {

// Number of runs that are copied in one pass over the sources. Bounds the
// memory of GatherRuns, together with twice as many that one step may add.
inline constexpr size_t kGatherRunsMax = kPassRunsMax;

// The runs of one pass, as memory of GatherReader. Readers that are used in
// turns can share it. It has up to 17 MiB.
class GatherRuns {
 private:
  friend class GatherReader;

  // A run that is being copied.
  struct Cursor {
    GatherRun run;
    uint64_t row = 0;      // Rows that are copied completely.
    uint64_t skipped = 0;  // Elements of the next row that are copied.

    bool is_done() const { return row == run.count; }
    // The next element of the source.
    uint64_t position() const { return run.from + row * run.stride + skipped; }
  };
  // Vectors grow to the next power of two.
  static_assert(4 * kGatherRunsMax * (sizeof(Cursor) + sizeof(uint32_t)) <=
                size_t{17} << 20);

  std::vector<Cursor> cursors_;
  std::vector<uint32_t> active_;  // Numbers of cursors that a block may have.
};

// Reads elements of a Gather.
//
// A view may need elements from all over its tensor for a few elements of its
// output: the first row of a transposed matrix has an element of every row. To
// read them in the order of the output would read each block of the tensor once
// for each row. The runs of a call are therefore sorted by their position in
// the tensor and copied in one ascending pass, so that a call reads each block
// at most once for every kGatherRunsMax runs. The larger the calls, the fewer
// passes, unless the runs are short; see daemon/compare/view/read_cost.h.
// ViewStream chooses the size of the calls.
//
// Thread-compatible. Borrows its arguments.
class GatherReader {
 public:
  // `leaves` has a reader for each source of the gather. `width` is the size of
  // an element in bytes.
  GatherReader(const Gather& gather,
               std::span<const std::unique_ptr<LeafReader>> leaves,
               size_t width, GatherRuns& runs)
      : gather_(gather),
        leaves_(leaves),
        width_(width),
        cursors_(runs.cursors_),
        active_(runs.active_) {}

  // Copies the elements `begin`, `begin + step` and so on to `out`, which has
  // room for `count` elements. Errors: those of LeafReader::At.
  absl::Status Read(uint64_t begin, uint64_t count, uint64_t step,
                    std::span<std::byte> out);

 private:
  using Cursor = GatherRuns::Cursor;

  // Copies all runs that are listed in cursors_.
  absl::Status CopyAll(std::span<std::byte> out);
  // Copies runs of one source, which are sorted.
  absl::Status Sweep(std::span<Cursor> runs, LeafReader& leaf,
                     std::span<std::byte> out);
  // Copies what a block has of the runs in active_. Returns the position of the
  // next element that they need.
  uint64_t CopyFrom(const LeafReader::Block& block, std::span<Cursor> runs,
                    std::span<std::byte> out);
  void CopyRun(const LeafReader::Block& block, Cursor& run,
               std::span<std::byte> out) const;
  // Returns the number of runs from active_[first] that have neighboring
  // columns, and copies their common rows.
  size_t CopyColumns(const LeafReader::Block& block, std::span<Cursor> runs,
                     size_t first, std::span<std::byte> out) const;

  const Gather& gather_;
  const std::span<const std::unique_ptr<LeafReader>> leaves_;
  const size_t width_;
  std::vector<Cursor>& cursors_;
  std::vector<uint32_t>& active_;
};

}  // namespace msitd::compare
