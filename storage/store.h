// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/attachments.h"
#include "storage/face/chunk_log.h"
#include "storage/face/comparisons.h"
#include "storage/face/run_reader.h"
#include "storage/face/runs.h"
#include "storage/face/upkeep.h"

namespace msitd::storage {

class Env;

struct StoreOptions {
  std::string directory;  // Made if it does not exist; its parent must.

  // A segment that has reached this size is sealed and the next one begun.
  uint64_t segment_bytes_max = uint64_t{1} << 30;

  // O_DIRECT is used where the file system takes it.
  bool direct_io = true;

  // RocksDB memory: memtables, and block cache.
  uint64_t index_write_buffer_bytes = uint64_t{32} << 20;
  uint64_t index_cache_bytes = uint64_t{64} << 20;
};

// Durable chunks and their index. Users take only the faces that they need;
// these live as long as the store. Thread-safe.
class Store {
 public:
  // Opens a store, or makes one, and reads the frames that the index lacks.
  //
  // Errors: FAILED_PRECONDITION if another process has it open; DATA_LOSS if
  // the index is damaged or lacks durable entries; those of the file system.
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      const StoreOptions& options, Env& env);

  // All readers, scans, batches and writers of attachments have ended.
  virtual ~Store() = default;

  virtual Runs& runs() = 0;
  virtual ChunkLog& log() = 0;
  virtual RunReaders& readers() = 0;
  virtual Comparisons& comparisons() = 0;
  virtual Attachments& attachments() = 0;
  virtual Upkeep& upkeep() = 0;

  // Makes everything durable, index included, so that the next Open has no
  // frames to read. Called once, after the last Append.
  virtual absl::Status Close() = 0;
};

}  // namespace msitd::storage
