// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "protos/base/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

// Remembers what lies around small pieces of segments that are read one after
// the other, each by a call of its own: an export, or metrics of others, which
// do not say what they will ask for. Thread-safe.
//
// A piece that begins where another one ended, or a little behind, is read with
// what follows it. What is remembered may be older than the file: callers check
// what they get, and read again what does not match.
class ReadAround {
 public:
  // Longer pieces are read alone.
  static constexpr uint64_t kPieceBytesMax = uint64_t{128} << 10;
  // How much is read in place of a piece, and how many such reads are
  // remembered: 8 MiB for the store.
  static constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
  static constexpr size_t kWindowsMax = 8;
  // Readers whose last piece is known.
  static constexpr size_t kReadersMax = 32;
  // A piece follows another one across a gap of no more.
  static constexpr uint64_t kGapBytesMax = uint64_t{64} << 10;

  // What was read from a place on, in whole pages. The memory is shared by this
  // and those who copy from it; the last one frees it.
  struct Window {
    uint64_t segment = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::shared_ptr<const AlignedBuffer> memory;
  };

  // Copies the piece to `out` and returns true if it is remembered. Else sets
  // `is_next` if it follows another one.
  bool Find(SegmentId segment, uint64_t offset, std::span<std::byte> out,
            bool& is_next);

  // Remembers what was read.
  void Add(Window window);

  // Of a segment that is to be removed.
  void Forget(SegmentId segment);

 private:
  struct Reader {
    uint64_t segment = 0;
    uint64_t end = 0;
  };

  // Takes note that a piece is read; true if it follows another one.
  bool Follows(const Reader& piece, uint64_t offset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::deque<Window> windows_ ABSL_GUARDED_BY(mu_);  // The latest first.
  std::deque<Reader> readers_ ABSL_GUARDED_BY(mu_);  // The latest first.
};

}  // namespace msitd::storage
