// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "storage/append_gate.h"
#include "storage/disk_room.h"
#include "storage/env/ballast.h"
#include "storage/env/directory_lock.h"
#include "storage/env/env.h"
#include "storage/index/chunk_index.h"
#include "storage/index/index_gate.h"
#include "storage/indexed_attachments.h"
#include "storage/indexed_comparisons.h"
#include "storage/indexed_runs.h"
#include "storage/read/stored_run_readers.h"
#include "storage/segment/segment_reader.h"
#include "storage/store.h"
#include "storage/store_figures.h"
#include "storage/store_log.h"
#include "storage/store_upkeep.h"

namespace msitd::storage {

// A store on segments and RocksDB. Owns its parts and connects them: the log
// appends, and upkeep discards, checks and recovers what was appended.
class StoreImpl final : public Store {
 public:
  StoreImpl(const StoreOptions& options, Env& env, DirectoryLock lock,
            std::unique_ptr<Ballast> ballast,
            std::unique_ptr<ChunkIndex> index);
  // Without a preceding Close, this is equivalent to a crash of the process.
  ~StoreImpl() override;

  // Indexes all frames up to the end of the log. Must be called once, before
  // everything else.
  absl::Status Recover() { return upkeep_.Recover(); }

  Runs& runs() override { return runs_; }
  ChunkLog& log() override { return log_; }
  RunReaders& readers() override { return readers_; }
  Comparisons& comparisons() override { return comparisons_; }
  Attachments& attachments() override { return attachments_; }
  Upkeep& upkeep() override { return upkeep_; }
  absl::Status Close() override { return log_.Close(); }

 private:
  const DirectoryLock lock_;

  // All are thread-safe. The index writes with the space of the ballast.
  const std::unique_ptr<Ballast> ballast_;
  IndexGate index_;
  SegmentReader reader_;
  DiskRoom room_;
  AppendGate appends_;
  StoreFigures figures_;

  IndexedRuns runs_;
  IndexedComparisons comparisons_;
  IndexedAttachments attachments_;
  StoredRunReaders readers_;
  StoreLog log_;
  StoreUpkeep upkeep_;
};

}  // namespace msitd::storage
