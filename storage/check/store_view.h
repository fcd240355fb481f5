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
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_set.h"
#include "storage/segment/segment_walk.h"

namespace msitd::storage {

// A store opened for reading by another program than the daemon. Nothing is
// written to it. Thread-compatible.
//
// If a daemon has the store open, the view is *live*: it has the index as a
// crash of the daemon would leave it now, and the segments as they were listed
// after that. The store goes on changing, so what looks wrong is wrong only if
// a later view finds it too. If no daemon has the store open, none can open it
// while the view lives.
class StoreView {
 public:
  // How many times Open tries to make a live view.
  static constexpr int kLiveAttemptsMax = 10;

  // Errors: NOT_FOUND or DATA_LOSS if there is no store; UNAVAILABLE if a live
  // one changed at every attempt; those of the files, including the temporary
  // files of a live view.
  static absl::StatusOr<StoreView> Open(const std::string& directory, Env& env);

  // Views a store through another index than its own, one that may be written
  // to. `lock` keeps others from writing to the store.
  static absl::StatusOr<StoreView> Over(const std::string& directory, Env& env,
                                        DirectoryLock lock,
                                        std::unique_ptr<ChunkIndex> index);

  bool is_live() const { return !lock_.has_value(); }
  // Another view of the same store, as it is now.
  absl::StatusOr<StoreView> Again() const { return Open(directory_, *env_); }

  Env& env() { return *env_; }
  ChunkIndex& index() { return *index_; }
  // Where the segment files are.
  std::string segment_directory() const;
  // In the order of their ids.
  const std::vector<SegmentFile>& segments() const { return segments_; }

  // How much of the log is in the index.
  const LogPosition& position() const { return position_; }

  // Begins a walk over a whole segment; `file` is borrowed.
  absl::StatusOr<SegmentWalk> Walk(const SegmentFile& segment, File& file);

 private:
  // Removes the directory and all that is in it.
  struct RemoveDirectory {
    void operator()(const std::string* path) const;
  };
  using ScratchDirectory = std::unique_ptr<const std::string, RemoveDirectory>;

  static absl::StatusOr<ScratchDirectory> MakeScratch();
  // Opens a copy of the index that it makes in `scratch`.
  static absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenLive(
      const std::string& index_directory, ScratchDirectory& scratch);

  StoreView(std::string directory, Env& env, std::optional<DirectoryLock> lock,
            ScratchDirectory scratch, std::unique_ptr<ChunkIndex> index)
      : directory_(std::move(directory)),
        env_(&env),
        lock_(std::move(lock)),
        scratch_(std::move(scratch)),
        index_(std::move(index)) {}

  // Reads what the view has besides the index.
  absl::Status Load();

  std::string directory_;
  Env* env_;
  std::optional<DirectoryLock> lock_;  // Nothing: the view is live.
  ScratchDirectory scratch_;           // Of a live view; outlives the index.
  std::unique_ptr<ChunkIndex> index_;
  std::vector<SegmentFile> segments_;
  std::map<uint64_t, uint64_t> known_ends_;
  LogPosition position_;
};

}  // namespace msitd::storage
