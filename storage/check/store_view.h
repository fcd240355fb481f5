// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/env/directory_lock.h"
#include "storage/env/env.h"
#include "storage/env/scratch_directory.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_set.h"
#include "storage/segment/segment_walk.h"

namespace msitd::storage {

// A store opened for reading by a program other than the daemon. Writes nothing
// to the store. Thread-compatible.
//
// If a daemon has the store open, the view is *live*: its index is in the state
// after a crash of the daemon at this moment, and its segments are those listed
// after that. The store continues to change, so an apparent fault is real only
// if a later view has it as well. If no daemon has the store open, none can
// open it while the view exists.
class StoreView {
 public:
  // How many times Open tries to create a live view.
  static constexpr int kLiveAttemptsMax = 10;

  // Errors: NOT_FOUND or DATA_LOSS if there is no store; UNAVAILABLE if a live
  // store changed at every attempt; those of the files, including the temporary
  // files of a live view.
  static absl::StatusOr<StoreView> Open(const std::string& directory, Env& env);

  // Views a store through another index than its own, one that may be written
  // to. `lock` keeps others from writing to the store.
  static absl::StatusOr<StoreView> Over(const std::string& directory, Env& env,
                                        DirectoryLock lock,
                                        std::unique_ptr<ChunkIndex> index);

  bool is_live() const { return !lock_.has_value(); }
  // Returns another view of the current state of the same store.
  absl::StatusOr<StoreView> Again() const { return Open(directory_, *env_); }

  Env& env() { return *env_; }
  ChunkIndex& index() { return *index_; }
  // Directory of the segment files.
  std::string segment_directory() const;
  // Segments ordered by id.
  const std::vector<SegmentFile>& segments() const { return segments_; }

  // How much of the log has been indexed.
  const LogPosition& position() const { return position_; }

  // Begins a walk over a whole segment; `file` is borrowed.
  absl::StatusOr<SegmentWalk> Walk(const SegmentFile& segment, File& file);

 private:
  // Opens a copy of the index, which it creates in a new `scratch`.
  static absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenLive(
      const std::string& index_directory,
      std::unique_ptr<ScratchDirectory>& scratch);

  StoreView(std::string directory, Env& env, std::optional<DirectoryLock> lock,
            std::unique_ptr<ScratchDirectory> scratch,
            std::unique_ptr<ChunkIndex> index)
      : directory_(std::move(directory)),
        env_(&env),
        lock_(std::move(lock)),
        scratch_(std::move(scratch)),
        index_(std::move(index)) {}

  // Reads all data of the view other than the index.
  absl::Status Load();

  std::string directory_;
  Env* env_;
  std::optional<DirectoryLock> lock_;  // Nothing if the view is live.
  // Belongs to a live view; must outlive the index.
  std::unique_ptr<ScratchDirectory> scratch_;
  std::unique_ptr<ChunkIndex> index_;
  std::vector<SegmentFile> segments_;
  std::map<uint64_t, uint64_t> known_ends_;
  LogPosition position_;
};

}  // namespace msitd::storage
