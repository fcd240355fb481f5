// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/watch/file_states.h"

namespace msitd::watch {

// What becomes of files whose records the daemon has acknowledged: their
// `_min_max` file is written, then they are removed. Each step is on the disk
// before the next one, so at any time the dump is there, or what stands for it.
// A file that is not what was read, or that a program has open to write, stays.
// Paths are below one root. Thread-compatible.
class SourceKeeper {
 public:
  struct Options {
    bool writes_min_max = false;
    // Not for trees whose files name one another for their bytes.
    bool deletes = false;
  };
  // Files that wait. More are left as they are, and counted as kept.
  static constexpr size_t kWaitingMax = size_t{1} << 20;
  // Of one step: so many files are open, so many bytes are read, and one file
  // more.
  static constexpr size_t kBatchMax = 128;
  static constexpr uint64_t kBatchBytesMax = uint64_t{64} << 20;
  // After a failure, such as a full disk.
  static constexpr std::chrono::milliseconds kRetryInterval{1000};

  SourceKeeper(Options options, std::string root)
      : options_(options), root_(std::move(root)) {}

  bool is_on() const { return options_.writes_min_max || options_.deletes; }

  // The run has the file, as it was at `stamp`.
  void Take(const std::string& path, const FileStamp& stamp);

  // Deals with some files. A file that fails is tried again later, and holds up
  // no other. `is_end`: with all files, and at once with those that failed.
  void Work(std::chrono::steady_clock::time_point now, bool is_end);

  // Does nothing for a while.
  void Pause(std::chrono::steady_clock::time_point now) {
    pause_time_ = now + kRetryInterval;
  }
  // Leaves all that wait, and all that come, as they are.
  void GiveUp();

  int64_t waiting_count() const {
    return static_cast<int64_t>(waiting_.size() + failed_.size());
  }
  // True if Work would do something.
  bool is_due(std::chrono::steady_clock::time_point now) const {
    return now >= pause_time_ &&
           (!waiting_.empty() || (!failed_.empty() && now >= retry_time_));
  }
  // Returns and forgets the paths of `_min_max` files that were written.
  std::vector<std::string> TakeMade() { return std::exchange(made_, {}); }
  int64_t deleted_count() const { return deleted_count_; }
  int64_t min_max_count() const { return min_max_count_; }
  // Files that stay, because they have no `_min_max` form or changed.
  int64_t kept_count() const {
    return static_cast<int64_t>(kept_.size()) + untold_count_;
  }
  // Why a file that failed did; OK if there is none.
  const absl::Status& failure() const { return failure_; }

 private:
  struct Source;
  class Batch;

  void DoBatch(std::chrono::steady_clock::time_point now);
  void Keep(const std::string& path, const FileStamp& stamp);
  void Settle(const Source& source, std::chrono::steady_clock::time_point now);

  const Options options_;
  const std::string root_;
  std::deque<std::string> waiting_;
  // To be tried again.
  std::deque<std::string> failed_;
  // Of those that wait or failed.
  std::unordered_map<std::string, FileStamp> stamps_;
  std::unordered_map<std::string, FileStamp> kept_;
  // Those for which `kept_` has no room.
  int64_t untold_count_ = 0;
  // Folders whose own names are on the disk.
  std::unordered_set<std::string> durable_folders_;
  std::chrono::steady_clock::time_point retry_time_;
  std::chrono::steady_clock::time_point pause_time_;
  bool has_given_up_ = false;
  int64_t deleted_count_ = 0;
  int64_t min_max_count_ = 0;
  std::vector<std::string> made_;
  absl::Status failure_;
};

}  // namespace msitd::watch
