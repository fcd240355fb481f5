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

// Reads the blocks of an archived run, checks them, and keeps the last ones.
// Thread-safe.
class ArchiveBlocks {
 public:
  // Blocks that lie one behind the other are read at once up to so many bytes.
  static constexpr uint64_t kReadBytesMax = uint64_t{2} << 20;
  // What is kept: entries, as many blocks as hold so many of them and at least
  // one; and blocks that were read with others, so many bytes.
  static constexpr size_t kEntriesKept = 32768;
  static constexpr uint64_t kBytesKept = uint64_t{8} << 20;

  // All arguments outlive it. `folder` is where the objects of the run lie.
  ArchiveBlocks(ObjectStore& store, const std::string& folder,
                const ArchiveManifest& manifest,
                const ArchiveDirectory& directory)
      : store_(store),
        folder_(folder),
        manifest_(manifest),
        directory_(directory) {}

  // Returns the entries of a block. The caller means to ask for those behind it
  // too, up to but without block `end`.
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
  std::list<Decoded> decoded_ ABSL_GUARDED_BY(mu_);  // The last used first.
  size_t entry_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::list<Raw> raw_ ABSL_GUARDED_BY(mu_);
  uint64_t raw_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  size_t next_block_ ABSL_GUARDED_BY(mu_) = 0;  // Behind what was read last.
};

}  // namespace msitd::storage
