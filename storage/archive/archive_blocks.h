// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/archive/archive_format.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {

// The entries of one block.
using BlockEntries = std::shared_ptr<const std::vector<TensorInfo>>;

// Reads and checks the blocks of an archived run, and caches the most recent
// ones. Thread-safe.
class ArchiveBlocks {
 public:
  // Maximum number of bytes of adjacent blocks that are read together.
  static constexpr uint64_t kReadBytesMax = uint64_t{2} << 20;
  // Limits of the cache: number of entries in decoded blocks, of which at least
  // one is kept, and bytes of blocks that were read together with others.
  static constexpr size_t kEntriesKept = 32768;
  static constexpr uint64_t kBytesKept = uint64_t{8} << 20;

  // All arguments must outlive this object. `folder` has the objects of the
  // run.
  ArchiveBlocks(ObjectStore& store, const std::string& folder,
                const ArchiveManifest& manifest,
                const ArchiveDirectory& directory)
      : store_(store),
        folder_(folder),
        manifest_(manifest),
        directory_(directory) {}

  // Returns the entries of a block. `end` is a hint: the caller intends to read
  // the following blocks up to, but excluding, block `end`.
  //
  // Errors: DATA_LOSS with FRAME_CORRUPT; those of the object store.
  absl::StatusOr<BlockEntries> Read(size_t block, size_t end)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Decoded {
    size_t block = 0;
    BlockEntries entries;
  };
  struct Raw {
    size_t block = 0;
    std::string bytes;
  };

  BlockEntries FindDecoded(size_t block) ABSL_LOCKS_EXCLUDED(mu_);
  std::string TakeRaw(size_t block) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::string> Fetch(size_t block, size_t end)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<BlockEntries> Decode(size_t block, std::string bytes) const;
  void Keep(size_t block, const BlockEntries& entries) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Corrupt(size_t block, std::string_view problem) const;

  ObjectStore& store_;
  const std::string& folder_;
  const ArchiveManifest& manifest_;
  const ArchiveDirectory& directory_;
  Mutex mu_;
  std::list<Decoded> decoded_ ABSL_GUARDED_BY(mu_);  // Most recently used
                                                     // first.
  size_t entry_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Raw> raw_ ABSL_GUARDED_BY(mu_);
  uint64_t raw_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t next_block_ ABSL_GUARDED_BY(mu_) = 0;  // The block after the last one
                                                // read.
};

}  // namespace msitd::storage
