// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/check/store_check.h"
#include "storage/env/env.h"
#include "storage/rebuild/index_import.h"
#include "storage/rebuild/lost_marks.h"
#include "storage/rebuild/old_entries.h"

namespace msitd::storage {

struct RebuildOptions {
  std::string directory;  // Of the store.
  // Where the new index goes; it must not exist, or be empty. Then the store is
  // only read, and others may read it at the same time. If none is given, the
  // new index takes the place of the old one, which is kept.
  std::string target;
  // Reads every frame through the new index and compares it with its hash.
  bool checks_frames = true;
};

struct RebuildReport {
  // What is wrong with the old index; empty if nothing is.
  std::vector<std::string> damage;
  uint64_t kept_run_count = 0;  // With their settings.
  // Names of the runs that only the segments have.
  std::vector<std::string> recovered_runs;
  uint64_t deleted_run_count = 0;  // Runs that have frames and stay deleted.
  ImportCounts import;
  LostMarksCounts lost_marks;
  OldEntriesCounts old_entries;
  // The check of the new index against all frames, if one was asked for.
  StoreCheckReport check;
  uint64_t torn_frame_count = 0;
  // Places where frames that had been durable cannot be read.
  uint64_t corrupt_frame_count = 0;
  // Segments that are missing and of which the old index had nothing.
  uint64_t unread_segment_count = 0;
  // What was lost or cannot be shown to be as it was, for people.
  std::vector<std::string> notes;
  std::string index;      // The new index.
  std::string old_index;  // Where the old index is now; empty if nowhere.

  bool is_complete() const { return notes.empty() && check.problem_count == 0; }
};

// Makes the index of a store from its segments and from what can be read of the
// index that it has, and checks that every frame can be read through it. Blocks
// as long as it takes to read all segments twice. Until then no daemon can open
// the store.
//
// Segments are not written to. The old index is not changed until the new one
// is complete and durable, and is never removed. After an error, or if the
// process is killed, it can be run again.
//
// Calls `report` for each place of a segment that cannot be read.
//
// Errors: FAILED_PRECONDITION if a daemon has the store open or if a newer
// program wrote it; NOT_FOUND or DATA_LOSS if the directory holds no store;
// those of the file system.
absl::StatusOr<RebuildReport> RebuildIndex(
    const RebuildOptions& options, Env& env,
    const std::function<void(const StoreProblem&)>& report);

}  // namespace msitd::storage
