// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

// The part of a run that most callers need; it has no long fields.
struct RunBrief {
  RunId id{};
  bool sealed = false;
  bool restoring = false;
  RunRetention retention;
  RunCounters counters;
};

// All runs of the store, kept in memory as well. Thread-safe. A change takes
// two steps: AppendTo puts it into a batch, and Accept makes it visible once
// the batch is written.
class RunTable {
 public:
  // CheckRoomFor refuses one more run with RESOURCE_EXHAUSTED.
  static constexpr size_t kRunsMax = size_t{1} << 16;

  // The most memory that the labels and capture policies of all runs take:
  // their bytes, and kLabelBytes more for each label. CheckRoomFor refuses
  // more.
  static constexpr uint64_t kTextBytesMax = uint64_t{32} << 20;
  static constexpr uint64_t kLabelBytes = 128;

  explicit RunTable(IndexDb& db) : db_(db) {}

  // Reads all runs. Called once, before anything else.
  absl::Status Load();

  // NOT_FOUND with RUN_NOT_FOUND.
  absl::StatusOr<RunInfo> Get(std::string_view name);
  // The same by id. The id may come from a frame, so it may be of no run.
  absl::StatusOr<RunInfo> GetById(RunId id);
  absl::StatusOr<RunBrief> Brief(std::string_view name);
  absl::StatusOr<RunBrief> BriefById(RunId id);
  // All runs in the order of their names.
  std::vector<RunBrief> Briefs();
  std::vector<RunInfo> List(std::string_view after, size_t limit);
  // RESOURCE_EXHAUSTED with RUNS_EXHAUSTED if the table has no room for `run`
  // with its labels and its policy. Both kRunsMax and kTextBytesMax are divided
  // among the owners of runs as FairShare says.
  absl::Status CheckRoomFor(const RunInfo& run);
  size_t size();
  // The runs that are pinned: how many, and the payload that they keep.
  struct Pinned {
    uint64_t run_count = 0;
    uint64_t kept_bytes = 0;
  };
  Pinned CountPinned();

  void AppendTo(rocksdb::WriteBatch& batch, const RunInfo& run) const;
  // AppendHidingTo removes the entry by name, AppendRemovalTo everything else
  // of the run.
  void AppendHidingTo(rocksdb::WriteBatch& batch, std::string_view name) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId id) const;
  // Puts the counters that come from frames.
  void AppendCountersTo(rocksdb::WriteBatch& batch, RunId id,
                        const RunCounters& counters) const;

  // Adds the run, or replaces all but its counters.
  void Accept(const RunInfo& run);
  void AcceptRemoval(std::string_view name);
  // Replaces the counters that come from frames.
  void AcceptCounters(RunId id, const RunCounters& counters);
  // Adds to the counters that the coverage table keeps.
  void AcceptLoss(RunId id, const StreamCoverage& loss);
  // Replaces the counter that the expiry table keeps.
  void AcceptExpired(RunId id, uint64_t expired_bytes);
  // Replaces the counter of bytes in segments whose files are not there.
  void AcceptMissing(RunId id, uint64_t missing_bytes);
  // Replaces the counter of places in the log that cannot be read, of all runs
  // that there are.
  void AcceptUnread(uint64_t place_count);

 private:
  // What runs take of the limits.
  struct Usage {
    uint64_t run_count = 0;
    uint64_t text_bytes = 0;
  };

  absl::Status LoadCounters(RunInfo& run);
  // Add the run to, and take it from, what its owner uses.
  void Count(const RunInfo& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Uncount(const RunInfo& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  IndexDb& db_;

  Mutex mu_;
  std::map<std::string, RunInfo, std::less<>> runs_ ABSL_GUARDED_BY(mu_);
  // Points into runs_.
  std::unordered_map<uint64_t, RunInfo*> by_id_ ABSL_GUARDED_BY(mu_);
  Usage usage_ ABSL_GUARDED_BY(mu_);
  // By owner; none that owns no run.
  std::map<std::string, Usage, std::less<>> usage_of_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
