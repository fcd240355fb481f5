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

// Processes files whose records the daemon has acknowledged: writes their
// `_min_max` files and then removes them. Each step is durable before the next
// one, so that either the dump or its replacement exists at any time. A file
// that differs from the one that was read, or that a program has open for
// writing, stays. Paths are below one root. Thread-compatible.
class SourceKeeper {
 public:
  struct Options {
    bool writes_min_max = false;
    // Not for trees whose files refer to one another for their bytes.
    bool deletes = false;
  };
  // Files that wait. Further files are not changed, and are counted as kept.
  static constexpr size_t kWaitingMax = size_t{1} << 20;
  // Limits for one step: the number of open files, and the bytes that are read,
  // not counting one more file.
  static constexpr size_t kBatchMax = 128;
  static constexpr uint64_t kBatchBytesMax = uint64_t{64} << 20;
  // The delay after a failure, such as a full disk.
  static constexpr std::chrono::milliseconds kRetryInterval{1000};

  SourceKeeper(Options options, std::string root)
      : options_(options), root_(std::move(root)) {}

  bool is_on() const { return options_.writes_min_max || options_.deletes; }

  // Adds a file that the run has in the version of `stamp`.
  void Take(const std::string& path, const FileStamp& stamp);

  // Processes some files. A file that fails is tried again later and does not
  // block other files. `is_end`: processes all files, including those that
  // failed.
  void Work(std::chrono::steady_clock::time_point now, bool is_end);

  // Suspends work for a while.
  void Pause(std::chrono::steady_clock::time_point now) {
    pause_time_ = now + kRetryInterval;
  }
  // Leaves all waiting files and all later ones as they are.
  void GiveUp();

  int64_t waiting_count() const {
    return static_cast<int64_t>(waiting_.size() + failed_.size());
  }
  // Returns true if Work has something to do.
  bool is_due(std::chrono::steady_clock::time_point now) const {
    return now >= pause_time_ &&
           (!waiting_.empty() || (!failed_.empty() && now >= retry_time_));
  }
  // Returns and removes the paths of `_min_max` files that were written.
  std::vector<std::string> TakeMade() { return std::exchange(made_, {}); }
  int64_t deleted_count() const { return deleted_count_; }
  int64_t min_max_count() const { return min_max_count_; }
  // Files that stay, because they have no `_min_max` form or changed.
  int64_t kept_count() const {
    return static_cast<int64_t>(kept_.size()) + untold_count_;
  }
  // The reason for a failed file; OK if there is none.
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
  // Files to try again.
  std::deque<std::string> failed_;
  // The stamps of waiting and failed files.
  std::unordered_map<std::string, FileStamp> stamps_;
  std::unordered_map<std::string, FileStamp> kept_;
  // Files beyond the capacity of `kept_`.
  int64_t untold_count_ = 0;
  // Folders whose own names are durable.
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
