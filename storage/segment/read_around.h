// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

// Reads ahead for callers that read small pieces of segments one after the
// other without saying what they will ask for, such as an export or custom
// metrics. Thread-safe.
//
// A piece that begins where an earlier one ended, or a little behind, is read
// together with the bytes that follow it, and these are remembered. What is
// remembered may be older than the file: callers check what they get, and read
// again what does not match.
class ReadAround {
 public:
  // Longer pieces are read alone.
  static constexpr uint64_t kPieceBytesMax = uint64_t{128} << 10;
  // How many bytes are read in place of one piece, and how many such reads are
  // remembered: 8 MiB in all.
  static constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
  static constexpr size_t kWindowsMax = 8;
  // For how many readers the end of the last piece is remembered.
  static constexpr size_t kReadersMax = 32;
  // The longest gap across which a piece follows an earlier one.
  static constexpr uint64_t kGapBytesMax = uint64_t{64} << 10;

  // Whole pages that were read from one place on. The window and callers that
  // copy from it share the memory; the last one frees it.
  struct Window {
    uint64_t segment = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::shared_ptr<const AlignedBuffer> memory;
  };

  // Copies the piece to `out` and returns true if it is remembered. Sets
  // `is_next` to whether the piece follows an earlier one.
  bool Find(SegmentId segment, uint64_t offset, std::span<std::byte> out,
            bool& is_next);

  // Remembers what was read.
  void Add(Window window);

  // Forgets the bytes of a segment that is to be removed.
  void Forget(SegmentId segment);

 private:
  struct Reader {
    uint64_t segment = 0;
    uint64_t end = 0;
  };

  // Notes that `piece`, which begins at `offset`, is read; true if it follows
  // an earlier one.
  bool Follows(const Reader& piece, uint64_t offset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::deque<Window> windows_ ABSL_GUARDED_BY(mu_);  // The latest first.
  std::deque<Reader> readers_ ABSL_GUARDED_BY(mu_);  // The latest first.
};

}  // namespace msitd::storage
