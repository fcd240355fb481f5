// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/frame_indexer.h"
#include "storage/log_replay.h"
#include "storage/segment/segment_id.h"

namespace msitd::storage {

// The figures of a store that its log and its upkeep count, and the space that
// each segment uses on the disk. Thread-safe. No function calls other code with
// the lock held, so the figures can be used with any other lock of the store.
class StoreFigures {
 public:
  // Counts an append of `chunk_count` chunks to a segment that has `bytes`
  // durable bytes now.
  void CountAppend(size_t chunk_count, const IndexOutcome& outcome,
                   SegmentId segment, uint64_t bytes);
  void CountReplay(const LogReplay::Counts& counts);
  void CountExpired(uint64_t bytes);
  void CountShared(uint64_t bytes, uint64_t unequal_count);

  // Set the current state; see StoreStats.
  void SetRetention(uint64_t excess_bytes, bool is_making_room);
  void SetRetentionPause(std::string reason);
  void SetVerify(const VerifyStats& verify);
  void SetMissing(MissingSegments missing);
  // Returns whether the refusal has changed.
  bool SetRefusal(const std::string& refusal);
  std::string Refusal() const;

  // The disk space of segments whose files exist.
  void SetSegmentBytes(SegmentId segment, uint64_t bytes);
  void RemoveSegment(SegmentId segment);
  // The numbers of these segments, ascending.
  std::vector<uint64_t> Segments() const;
  uint64_t SegmentBytes() const;
  // The space of the segments from `first` up to but not including `end`,
  // without the first `first_offset` bytes of `first`.
  uint64_t SegmentBytesFrom(uint64_t first, uint64_t first_offset,
                            uint64_t end) const;

  // Returns the figures. Those that are not counted here are zero.
  StoreStats Read() const;

 private:
  mutable Mutex mu_;
  StoreStats stats_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> segment_sizes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
