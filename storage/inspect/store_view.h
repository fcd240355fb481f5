// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/env/directory_lock.h"
#include "storage/env/env.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_set.h"
#include "storage/segment/segment_walk.h"

namespace msitd::storage {

// A store opened for reading by something that is not the daemon. Nothing is
// written; no daemon can open the store meanwhile. Thread-compatible.
class StoreView {
 public:
  // Errors: FAILED_PRECONDITION if a daemon has the store open; NOT_FOUND or
  // DATA_LOSS if there is none.
  static absl::StatusOr<StoreView> Open(const std::string& directory, Env& env);

  Env& env() { return *env_; }
  ChunkIndex& index() { return *index_; }
  // In the order of their ids.
  const std::vector<SegmentFile>& segments() const { return segments_; }

  // Up to where the log is in the index.
  const LogPosition& position() const { return position_; }

  // Begins a walk over a whole segment; `file` is borrowed.
  absl::StatusOr<SegmentWalk> Walk(const SegmentFile& segment, File& file);

 private:
  StoreView(Env& env, DirectoryLock lock, std::unique_ptr<ChunkIndex> index)
      : env_(&env), lock_(std::move(lock)), index_(std::move(index)) {}

  Env* env_;
  DirectoryLock lock_;
  std::unique_ptr<ChunkIndex> index_;
  std::vector<SegmentFile> segments_;
  std::map<uint64_t, uint64_t> known_ends_;
  LogPosition position_;
};

}  // namespace msitd::storage
