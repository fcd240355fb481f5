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

// What most of those who ask for a run need of it: nothing that is long.
struct RunBrief {
  RunId id{};
  bool sealed = false;
  RunRetention retention;
  RunCounters counters;
};

// All runs of the store, kept in memory as well. Thread-safe. Changes are in
// two steps: AppendTo puts one into a batch, Accept makes it seen once the
// batch is written.
class RunTable {
 public:
  // One more run is refused with RESOURCE_EXHAUSTED.
  static constexpr size_t kRunsMax = size_t{1} << 16;

  // So is one more label, or a longer capture policy, once those of all runs
  // take so much memory: their bytes, and kLabelBytes for each label.
  static constexpr uint64_t kTextBytesMax = uint64_t{32} << 20;
  static constexpr uint64_t kLabelBytes = 128;

  explicit RunTable(IndexDb& db) : db_(db) {}

  // Reads all runs. Called once, before anything else.
  absl::Status Load();

  // NOT_FOUND with RUN_NOT_FOUND.
  absl::StatusOr<RunInfo> Get(std::string_view name);
  // The same by id; also for what frames say, which may be of no run.
  absl::StatusOr<RunInfo> GetById(RunId id);
  absl::StatusOr<RunBrief> Brief(std::string_view name);
  absl::StatusOr<RunBrief> BriefById(RunId id);
  // All runs in the order of their names.
  std::vector<RunBrief> Briefs();
  std::vector<RunInfo> List(std::string_view after, size_t limit);
  // RESOURCE_EXHAUSTED with RUNS_EXHAUSTED if `run`, with labels and policy as
  // they are there, would be one too many or take too much.
  absl::Status CheckRoomFor(const RunInfo& run);
  size_t size();

  void AppendTo(rocksdb::WriteBatch& batch, const RunInfo& run) const;
  // The run by its name; then what is left of it.
  void AppendHidingTo(rocksdb::WriteBatch& batch, std::string_view name) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId id) const;
  // Counters that come from frames.
  void AppendCountersTo(rocksdb::WriteBatch& batch, RunId id,
                        const RunCounters& counters) const;

  // Adds the run, or replaces all but its counters.
  void Accept(const RunInfo& run);
  void AcceptRemoval(std::string_view name);
  // Replaces the counters that come from frames.
  void AcceptCounters(RunId id, const RunCounters& counters);
  // Adds to those that the coverage table keeps.
  void AcceptLoss(RunId id, const StreamCoverage& loss);
  // Kept by the expiry table.
  void AcceptExpired(RunId id, uint64_t expired_bytes);

 private:
  absl::Status LoadCounters(RunInfo& run);

  IndexDb& db_;

  Mutex mu_;
  std::map<std::string, RunInfo, std::less<>> runs_ ABSL_GUARDED_BY(mu_);
  // Points into runs_.
  std::unordered_map<uint64_t, RunInfo*> by_id_ ABSL_GUARDED_BY(mu_);
  uint64_t text_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace msitd::storage
