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
  std::string directory;  // Created if it does not exist; its parent must
                          // exist.

  // Size at which a segment is sealed and the next one is started.
  uint64_t segment_bytes_max = uint64_t{1} << 30;

  // Whether to use O_DIRECT if the file system supports it.
  bool direct_io = true;

  // Memory of RocksDB: memtables, and block cache.
  uint64_t index_write_buffer_bytes = uint64_t{32} << 20;
  uint64_t index_cache_bytes = uint64_t{64} << 20;
};

// A store of durable chunks and their index. Callers use only the interfaces
// that they need, which live as long as the store. Thread-safe.
class Store {
 public:
  // Opens or creates a store, and indexes the frames that the index lacks.
  //
  // Errors: FAILED_PRECONDITION if another process has it open; DATA_LOSS if
  // the index is damaged or lacks durable entries; those of the file system.
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      const StoreOptions& options, Env& env);

  // All readers, scans, batches and writers of attachments must have ended.
  virtual ~Store() = default;

  virtual Runs& runs() = 0;
  virtual ChunkLog& log() = 0;
  virtual RunReaders& readers() = 0;
  virtual Comparisons& comparisons() = 0;
  virtual Attachments& attachments() = 0;
  virtual Upkeep& upkeep() = 0;

  // Makes all data durable, including the index, so that the next Open has no
  // frames to read. Must be called once, after the last Append.
  virtual absl::Status Close() = 0;
};

}  // namespace msitd::storage
