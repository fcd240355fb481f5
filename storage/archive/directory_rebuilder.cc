// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/directory_rebuilder.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/base/resource_name.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/archive/directory_builder.h"
#include "storage/batch/entry_batch.h"

namespace msitd::storage {
namespace {

// The end of a batch is unknown before it is read. This many bytes are tried
// first, and after each failure a multiple of them.
constexpr size_t kFirstTryBytes = size_t{4} << 10;
constexpr size_t kTryFactor = 8;

// Minimum sizes in a directory of a block, of an op in it, and of a token. They
// limit the memory that an archive can use here.
constexpr uint64_t kBlockCost = 20;
constexpr uint64_t kOpCost = 3;
constexpr uint64_t kTokenCost = 2;

// The entries of one batch, and its size in bytes.
struct FoundBatch {
  size_t bytes = 0;
  std::vector<TensorInfo> entries;
};

absl::Status Impossible(std::string_view what) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "the directory cannot be rebuilt: the indexes {}", what);
}

// Reads the batch at the start of `bytes`, which may be truncated.
absl::StatusOr<FoundBatch> ReadFirstBatch(std::string_view bytes,
                                          const std::string& run) {
  MSITD_ASSIGN_OR_RETURN(EntryBatchReader reader,
                         EntryBatchReader::Open(std::string(bytes), run));
  FoundBatch out;
  out.entries.resize(reader.entry_count());
  for (TensorInfo& entry : out.entries) {
    MSITD_RETURN_IF_ERROR(reader.Next(entry).status());
  }
  out.bytes = reader.read_bytes();
  return out;
}

absl::StatusOr<FoundBatch> FindFirstBatch(std::string_view bytes,
                                          const std::string& run) {
  const size_t bytes_max = std::min(bytes.size(), kEntryBatchBytesMax);
  for (size_t size = kFirstTryBytes;; size *= kTryFactor) {
    size = std::min(size, bytes_max);
    absl::StatusOr<FoundBatch> found =
        ReadFirstBatch(bytes.substr(0, size), run);
    if (found.ok() || size == bytes_max) return found;
  }
}

class Rebuilder {
 public:
  Rebuilder(ObjectStore& store, const std::string& folder,
            const ArchiveManifest& manifest)
      : store_(store), folder_(folder), manifest_(manifest) {}

  absl::StatusOr<RebuiltDirectory> Rebuild() {
    absl::Status damage;
    for (uint32_t i = 0; i < manifest_.indexes.size(); ++i) {
      const absl::StatusOr<std::string> bytes = ReadIndex(manifest_.indexes[i]);
      if (absl::IsDataLoss(bytes.status())) {
        damage = bytes.status();
        continue;
      }
      MSITD_RETURN_IF_ERROR(bytes.status());
      MSITD_RETURN_IF_ERROR(AddIndex(i, *bytes));
    }
    if (entry_count_ == 0 && !damage.ok()) return damage;
    if (entry_count_ > manifest_.entry_count ||
        (damage.ok() && entry_count_ < manifest_.entry_count)) {
      return Impossible("do not have the entries that the manifest says");
    }
    ArchiveDirectory& directory = builder_.directory();
    directory.placements.assign(placements_.begin(), placements_.end());
    // Decoding checks the order and all counts.
    ArchiveManifest found = manifest_;
    found.entry_count = entry_count_;
    RebuiltDirectory out;
    MSITD_ASSIGN_OR_RETURN(out.directory,
                           DecodeDirectory(EncodeDirectory(directory), found));
    out.lost_count = manifest_.entry_count - entry_count_;
    return out;
  }

 private:
  // Errors: DATA_LOSS for a missing or altered index.
  absl::StatusOr<std::string> ReadIndex(const ArchiveObject& index) {
    const std::string key = folder_ + "/" + index.name;
    absl::StatusOr<std::string> bytes = store_.Get(key, index.bytes);
    if (absl::IsNotFound(bytes.status())) {
      return MakeStatus(absl::StatusCode::kDataLoss, "{}",
                        Message(bytes.status()));
    }
    MSITD_RETURN_IF_ERROR(bytes.status());
    if (bytes->size() == index.bytes &&
        chunk::HashBytes(std::as_bytes(std::span(*bytes))) == index.hash) {
      return bytes;
    }
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{}/{} does not match the manifest", store_.url(), key);
  }

  absl::Status AddIndex(uint32_t number, std::string_view bytes) {
    size_t at = 0;
    while (at < bytes.size()) {
      MSITD_ASSIGN_OR_RETURN(
          const FoundBatch batch,
          FindFirstBatch(bytes.substr(at), manifest_.run.spec.name));
      if (batch.entries.empty()) return Impossible("have an empty batch");
      for (const TensorInfo& entry : batch.entries) {
        MSITD_RETURN_IF_ERROR(AddEntry(entry));
      }
      builder_.EndBlock({number, at}, bytes.substr(at, batch.bytes),
                        batch.entries.size());
      cost_ +=
          kBlockCost + kOpCost * builder_.directory().blocks.back().ops.size();
      if (cost_ > kDirectoryBytesMax) return Impossible("have too many blocks");
      at += batch.bytes;
    }
    return absl::OkStatus();
  }

  absl::Status AddEntry(const TensorInfo& entry) {
    const TensorKey& key = entry.key;
    if (!last_.has_value() || key.rank != last_->rank ||
        key.token != last_->token || key.device != last_->device) {
      last_ = Coordinate{key.rank, key.device, key.token};
      builder_.AddCoordinate(*last_);
      cost_ += kTokenCost;
    }
    if (!builder_.AddEntry(key)) return Impossible("are not in order");
    if (!entry.placement.empty()) placements_.insert(entry.placement);
    ++entry_count_;
    return absl::OkStatus();
  }

  ObjectStore& store_;
  const std::string& folder_;
  const ArchiveManifest& manifest_;
  DirectoryBuilder builder_;
  std::set<std::string> placements_;
  std::optional<Coordinate> last_;  // Coordinate of the previous entry.
  uint64_t entry_count_ = 0;
  uint64_t cost_ = 0;
};

}  // namespace

absl::StatusOr<RebuiltDirectory> RebuildDirectory(
    ObjectStore& store, const std::string& folder,
    const ArchiveManifest& manifest) {
  return Rebuilder(store, folder, manifest).Rebuild();
}

}  // namespace msitd::storage
