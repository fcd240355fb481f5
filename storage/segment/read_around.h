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

// Read-ahead for callers that read small pieces of segments one after the other
// without announcing what they will read, such as an export or custom metrics.
// Thread-safe.
//
// A piece that begins where an earlier one ended, or shortly after, is read
// together with the bytes that follow it, and these are cached. The cache may
// be older than the file, so callers must check the bytes and read them again
// if they do not match.
class ReadAround {
 public:
  // Longer pieces are read without read-ahead.
  static constexpr uint64_t kPieceBytesMax = uint64_t{128} << 10;
  // Number of bytes to read instead of one piece, and maximum number of cached
  // reads: 8 MiB in total.
  static constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
  static constexpr size_t kWindowsMax = 8;
  // Number of readers whose last position is remembered.
  static constexpr size_t kReadersMax = 32;
  // Maximum gap between an earlier piece and a piece that follows it.
  static constexpr uint64_t kGapBytesMax = uint64_t{64} << 10;

  // Consecutive whole pages that were read. The cache and callers that copy
  // from the window share its memory, which is freed by the last owner.
  struct Window {
    uint64_t segment = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::shared_ptr<const AlignedBuffer> memory;
  };

  // Copies the piece to `out` and returns true if it is cached. Sets `is_next`
  // to whether the piece follows an earlier one.
  bool Find(SegmentId segment, uint64_t offset, std::span<std::byte> out,
            bool& is_next);

  // Adds the result of a read to the cache.
  void Add(Window window);

  // Drops the cached bytes of a segment that is about to be removed.
  void Forget(SegmentId segment);

 private:
  struct Reader {
    uint64_t segment = 0;
    uint64_t end = 0;
  };

  // Records that `piece`, which begins at `offset`, is read. Returns true if it
  // follows an earlier one.
  bool Follows(const Reader& piece, uint64_t offset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::deque<Window> windows_ ABSL_GUARDED_BY(mu_);  // Most recent first.
  std::deque<Reader> readers_ ABSL_GUARDED_BY(mu_);  // Most recent first.
};

}  // namespace msitd::storage
