// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_blocks.h"

#include <algorithm>
#include <span>
#include <utility>

#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/archive/archive_error.h"
#include "storage/batch/entry_batch.h"

namespace msitd::storage {

absl::StatusOr<BlockEntries> ArchiveBlocks::Read(size_t block, size_t end) {
  if (BlockEntries found = FindDecoded(block); found != nullptr) return found;
  std::string bytes = TakeRaw(block);
  if (bytes.empty()) {
    MSITD_ASSIGN_OR_RETURN(bytes, Fetch(block, end));
  }
  MSITD_ASSIGN_OR_RETURN(BlockEntries entries, Decode(block, std::move(bytes)));
  Keep(block, entries);
  return entries;
}

BlockEntries ArchiveBlocks::FindDecoded(size_t block) {
  const MutexLock lock(mu_);
  const auto it =
      std::find_if(decoded_.begin(), decoded_.end(),
                   [&](const Decoded& d) { return d.block == block; });
  if (it == decoded_.end()) return nullptr;
  decoded_.splice(decoded_.begin(), decoded_, it);
  return decoded_.front().entries;
}

std::string ArchiveBlocks::TakeRaw(size_t block) {
  const MutexLock lock(mu_);
  const auto it = std::find_if(raw_.begin(), raw_.end(),
                               [&](const Raw& r) { return r.block == block; });
  if (it == raw_.end()) return {};
  std::string bytes = std::move(it->bytes);
  raw_bytes_ -= bytes.size();
  raw_.erase(it);
  return bytes;
}

absl::StatusOr<std::string> ArchiveBlocks::Fetch(size_t block, size_t end) {
  const std::vector<ArchiveBlock>& blocks = directory_.blocks;
  const ArchiveBlock& first = blocks[block];
  size_t last = block;
  uint64_t bytes = first.bytes;
  {
    // A caller that reads adjacent blocks in order will continue.
    const MutexLock lock(mu_);
    if (block == next_block_) end = blocks.size();
  }
  while (last + 1 < std::min(end, blocks.size())) {
    const ArchiveBlock& next = blocks[last + 1];
    if (next.index != first.index || next.offset != first.offset + bytes ||
        bytes + next.bytes > kReadBytesMax) {
      break;
    }
    bytes += next.bytes;
    ++last;
  }
  std::string read(bytes, '\0');
  const std::string& name = manifest_.indexes[first.index].name;
  const absl::Status status =
      store_.Read(folder_ + "/" + name, first.offset,
                  std::as_writable_bytes(std::span(read)));
  // A missing or short object is damage, not NOT_FOUND.
  if (absl::IsNotFound(status) || absl::IsDataLoss(status)) {
    return Corrupt(block, Message(status));
  }
  MSITD_RETURN_IF_ERROR(OfArchive(status, store_.url()));
  const MutexLock lock(mu_);
  next_block_ = last + 1;
  if (last == block) return read;
  uint64_t at = first.bytes;
  for (size_t i = block + 1; i <= last; ++i) {
    raw_.push_back({i, read.substr(at, blocks[i].bytes)});
    at += blocks[i].bytes;
    raw_bytes_ += blocks[i].bytes;
  }
  while (raw_bytes_ > kBytesKept) {
    raw_bytes_ -= raw_.front().bytes.size();
    raw_.pop_front();
  }
  read.resize(first.bytes);
  return read;
}

absl::Status ArchiveBlocks::Corrupt(size_t block,
                                    std::string_view problem) const {
  const ArchiveBlock& place = directory_.blocks[block];
  return OfArchive(
      WithReason(MakeStatus(absl::StatusCode::kDataLoss,
                            "{}/{}/{}: entries at byte {}: {}", store_.url(),
                            folder_, manifest_.indexes[place.index].name,
                            place.offset, problem),
                 ErrorReason::kFrameCorrupt),
      store_.url());
}

absl::StatusOr<BlockEntries> ArchiveBlocks::Decode(size_t block,
                                                   std::string bytes) const {
  const ArchiveBlock& place = directory_.blocks[block];
  if (chunk::HashBytes(std::as_bytes(std::span(bytes))) != place.hash) {
    return Corrupt(block, "they do not match their hash");
  }
  absl::StatusOr<EntryBatchReader> reader =
      EntryBatchReader::Open(std::move(bytes), manifest_.run.spec.name);
  if (!reader.ok()) return Corrupt(block, Message(reader.status()));
  if (reader->entry_count() != place.entry_count) {
    return Corrupt(block, "there are not as many as the directory says");
  }
  auto out = std::make_shared<std::vector<TensorInfo>>(place.entry_count);
  for (TensorInfo& tensor : *out) {
    const absl::StatusOr<bool> found = reader->Next(tensor);
    if (!found.ok()) return Corrupt(block, Message(found.status()));
    if (!*found) return Corrupt(block, "they end too early");
  }
  return out;
}

void ArchiveBlocks::Keep(size_t block, const BlockEntries& entries) {
  const MutexLock lock(mu_);
  decoded_.push_front({block, entries});
  entry_count_ += entries->size();
  while (entry_count_ > kEntriesKept && decoded_.size() > 1) {
    entry_count_ -= decoded_.back().entries->size();
    decoded_.pop_back();
  }
}

}  // namespace msitd::storage
