// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/base/resource_name.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/archive/archive_blocks.h"
#include "storage/archive/archive_url.h"
#include "storage/archive/directory_rebuilder.h"
#include "storage/archive/pack_reader.h"
#include "storage/read/read_pool.h"

namespace msitd::storage {
namespace {

// Number of entries after which a scan calls the stop check.
constexpr uint64_t kStopEntries = 256;
constexpr uint8_t kPositionVersion = 1;

// Entries by their numbers in primary order: [begin, end).
struct EntryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// State shared by all readers, scans and batches of one opened run.
class ArchivedRun {
 public:
  ArchivedRun(std::shared_ptr<ObjectStore> store, std::string folder,
              ArchiveManifest manifest, ArchiveDirectory directory,
              LostEntries* lost)
      : store_(std::move(store)),
        folder_(std::move(folder)),
        manifest_(std::move(manifest)),
        directory_(std::move(directory)),
        content_(ContentOf(manifest_)),
        lost_(lost),
        blocks_(*store_, folder_, manifest_, directory_),
        packs_(*store_, folder_, manifest_, pool_) {
    uint64_t first = 0;
    for (const ArchiveBlock& block : directory_.blocks) {
      block_begins_.push_back(first);
      first += block.entry_count;
    }
    first = 0;
    for (const ArchiveGroup& group : directory_.groups) {
      std::vector<uint64_t>& begins = token_begins_.emplace_back();
      begins.reserve(group.tokens.size());
      for (const ArchiveGroup::Token& token : group.tokens) {
        begins.push_back(first);
        first += token.entry_count;
      }
    }
  }

  const ArchiveManifest& manifest() const { return manifest_; }
  const ArchiveDirectory& directory() const { return directory_; }
  uint64_t content() const { return content_.low; }
  uint64_t block_begin(size_t block) const { return block_begins_[block]; }
  uint64_t block_end(size_t block) const {
    return block_begins_[block] + directory_.blocks[block].entry_count;
  }
  // Returns the block that has an entry.
  size_t BlockOf(uint64_t entry) const {
    return static_cast<size_t>(
        std::upper_bound(block_begins_.begin(), block_begins_.end(), entry) -
        block_begins_.begin() - 1);
  }
  ArchiveBlocks& blocks() { return blocks_; }
  LostEntries* lost() const { return lost_; }
  PackReader& packs() { return packs_; }

  // Calls `take(group, token, range)` for each coordinate that matches the
  // selector's ranks, devices and tokens. Cheap if that is a single token.
  template <typename Take>
  void EachCoordinate(const Selector& selector, Take take) const {
    for (size_t i = 0; i < directory_.groups.size(); ++i) {
      const ArchiveGroup& group = directory_.groups[i];
      if (!selector.HasRank(group.rank) ||
          !selector.HasDevice(directory_.devices[group.device])) {
        continue;
      }
      auto token = group.tokens.begin();
      if (selector.tokens.size() == 1) {
        token = std::lower_bound(
            token, group.tokens.end(), selector.tokens[0].first,
            [](const auto& t, int64_t first) { return t.token < first; });
      }
      for (; token != group.tokens.end(); ++token) {
        const bool has_token = selector.HasToken(token->token);
        if (!has_token && selector.tokens.size() == 1) break;
        if (!has_token) continue;
        const uint64_t begin =
            token_begins_[i][static_cast<size_t>(token - group.tokens.begin())];
        take(group, token->token,
             EntryRange{begin, begin + token->entry_count});
      }
    }
  }

 private:
  const std::shared_ptr<ObjectStore> store_;
  const std::string folder_;
  const ArchiveManifest manifest_;
  const ArchiveDirectory directory_;
  const ContentHash content_;
  LostEntries* const lost_;
  // Numbers of the first entry of each block, and of each token of each group.
  std::vector<uint64_t> block_begins_;
  std::vector<std::vector<uint64_t>> token_begins_;
  ReadPool pool_;
  ArchiveBlocks blocks_;
  PackReader packs_;
};

class ArchiveScan final : public TensorScan {
 public:
  ArchiveScan(ArchivedRun& run, Selector selector, uint64_t begin)
      : run_(run), selector_(std::move(selector)), at_(begin) {
    run_.EachCoordinate(
        selector_, [&](const ArchiveGroup&, int64_t, const EntryRange& range) {
          if (range.end <= begin || range.begin == range.end) return;
          if (!ranges_.empty() && ranges_.back().end == range.begin) {
            ranges_.back().end = range.end;
          } else {
            ranges_.push_back(range);
          }
        });
  }

  absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) override {
    while (range_ < ranges_.size()) {
      const EntryRange& range = ranges_[range_];
      at_ = std::max(at_, range.begin);
      if (at_ >= range.end) {
        ++range_;
        continue;
      }
      if (++looked_at_ % kStopEntries == 0) MSITD_RETURN_IF_ERROR(stop());
      if (entries_ == nullptr || at_ < begin_ ||
          at_ >= begin_ + entries_->size()) {
        MSITD_ASSIGN_OR_RETURN(const bool is_loaded, Load());
        if (!is_loaded) continue;
      }
      const TensorInfo& entry = (*entries_)[at_ - begin_];
      ++at_;
      if (!IsSelected(entry)) continue;
      out = entry;
      return true;
    }
    return false;
  }

  std::string position() const override {
    std::string bytes;
    ByteWriter out(bytes);
    out.PutByte(kPositionVersion);
    out.PutFixed64(run_.content());
    out.PutVarint(at_);
    return bytes;
  }

  uint64_t incomplete_count() const override { return lost_count_; }

 private:
  // Reads the entries at at_; false if they are lost and were skipped.
  absl::StatusOr<bool> Load() {
    const size_t block = run_.BlockOf(at_);
    const size_t end = run_.BlockOf(ranges_[range_].end - 1) + 1;
    absl::StatusOr<BlockEntries> entries = run_.blocks().Read(block, end);
    if (absl::IsDataLoss(entries.status()) && run_.lost() != nullptr) {
      run_.lost()->Add(block, run_.directory().blocks[block].entry_count,
                       entries.status());
      const uint64_t next =
          std::min(run_.block_end(block), ranges_[range_].end);
      lost_count_ += next - at_;
      at_ = next;
      return false;
    }
    MSITD_RETURN_IF_ERROR(entries.status());
    entries_ = *std::move(entries);
    begin_ = run_.block_begin(block);
    return true;
  }

  bool IsSelected(const TensorInfo& entry) {
    if (!selector_.HasKind(entry.kind) || !selector_.HasIo(entry.key.io)) {
      return false;
    }
    if (selector_.op_patterns.empty()) return true;
    // Adjacent entries often have the same op.
    if (entry.key.op != last_op_) {
      last_op_ = entry.key.op;
      has_last_op_ = selector_.HasOp(last_op_);
    }
    return has_last_op_;
  }

  ArchivedRun& run_;
  const Selector selector_;
  std::vector<EntryRange> ranges_;
  size_t range_ = 0;
  uint64_t at_ = 0;
  uint64_t looked_at_ = 0;
  uint64_t lost_count_ = 0;  // Skipped entries; see LostEntries.
  BlockEntries entries_;
  uint64_t begin_ = 0;  // Of entries_.
  std::string last_op_;
  bool has_last_op_ = false;
};

class ArchiveReader final : public RunReader {
 public:
  explicit ArchiveReader(std::unique_ptr<ArchivedRun> run)
      : run_(std::move(run)), name_(run_->manifest().run.spec.name) {}

  const std::string& name() const override { return name_; }

  absl::StatusOr<RunInfo> GetInfo() override { return run_->manifest().run; }

  absl::StatusOr<std::vector<RankCoverage>> ListCoverage() override {
    return run_->manifest().coverage;
  }

  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    std::vector<int32_t> ranks;
    for (const ArchiveGroup& group : run_->directory().groups) {
      if (ranks.empty() || ranks.back() != group.rank) {
        ranks.push_back(group.rank);
      }
    }
    return ranks;
  }

  absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      const Selector& selector) override {
    std::vector<Coordinate> out;
    run_->EachCoordinate(selector, [&](const ArchiveGroup& group, int64_t token,
                                       const EntryRange&) {
      out.push_back(
          {group.rank, run_->directory().devices[group.device], token});
    });
    return out;
  }

  absl::Status VisitCoordinates(
      const Selector& selector,
      absl::FunctionRef<absl::Status(const Coordinate&)> visit) override {
    absl::Status status;
    run_->EachCoordinate(selector, [&](const ArchiveGroup& group, int64_t token,
                                       const EntryRange&) {
      if (!status.ok()) return;
      status =
          visit({group.rank, run_->directory().devices[group.device], token});
    });
    return status;
  }

  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    return run_->directory().placements;
  }

  absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      Selector selector, std::string_view position) override {
    if (!selector.requests.empty()) {
      return MakeStatus(absl::StatusCode::kUnimplemented,
                        "an archive does not look for requests");
    }
    uint64_t begin = 0;
    if (!position.empty()) {
      ByteReader in(position);
      const bool is_ours = in.GetByte() == kPositionVersion &&
                           in.GetFixed64() == run_->content();
      begin = in.GetVarint();
      if (!is_ours || !in.done() || begin > run_->manifest().entry_count) {
        return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                     "the position is of another run"),
                          ErrorReason::kPageTokenInvalid);
      }
    }
    return std::make_unique<ArchiveScan>(*run_, std::move(selector), begin);
  }

  absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) override {
    Selector selector;
    selector.ranks = {key.rank};
    selector.devices = {key.device};
    selector.tokens = {{key.token, key.token}};
    EntryRange range;
    run_->EachCoordinate(
        selector, [&](const ArchiveGroup&, int64_t, const EntryRange& found) {
          range = found;
        });
    const uint32_t mark = OpMark(key.op);
    while (range.begin < range.end) {
      const size_t block = run_->BlockOf(range.begin);
      const std::vector<uint32_t>& ops = run_->directory().blocks[block].ops;
      if (std::binary_search(ops.begin(), ops.end(), mark)) {
        MSITD_ASSIGN_OR_RETURN(const BlockEntries entries,
                               run_->blocks().Read(block, block + 1));
        for (const TensorInfo& entry : *entries) {
          if (IsSame(entry.key, key)) return entry;
        }
      }
      range.begin = run_->block_end(block);
    }
    return WithReason(MakeStatus(absl::StatusCode::kNotFound, "there is no {}",
                                 FormatTensorName(name_, key)),
                      ErrorReason::kTensorNotFound);
  }

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartInfo& part, AlignedBuffer& buffer) override {
    return run_->packs().Read(part, buffer);
  }

  std::unique_ptr<PartBatch> ReadParts(std::span<const PartInfo> parts,
                                       AlignedBuffer& buffer) override {
    return run_->packs().ReadBatch(parts, buffer);
  }

  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) override {
    return run_->packs().ReadSample(tensor, part, buffer);
  }

 private:
  static bool IsSame(const TensorKey& a, const TensorKey& b) {
    return a.rank == b.rank && a.device == b.device && a.token == b.token &&
           a.op == b.op && a.call == b.call && a.io == b.io &&
           a.index == b.index;
  }

  const std::unique_ptr<ArchivedRun> run_;
  const std::string name_;
};

// Errors: DATA_LOSS for a missing or damaged directory.
absl::StatusOr<ArchiveDirectory> ReadDirectory(
    ObjectStore& store, const std::string& folder,
    const ArchiveManifest& manifest) {
  const ArchiveObject& object = manifest.directory;
  const std::string key = fmt::format("{}/{}", folder, object.name);
  const std::string where = fmt::format("{}/{}", store.url(), key);
  const absl::StatusOr<std::string> bytes = store.Get(key, object.bytes);
  if (absl::IsNotFound(bytes.status())) {
    return MakeStatus(absl::StatusCode::kDataLoss, "{}: it is missing", where);
  }
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != object.bytes ||
      chunk::HashBytes(std::as_bytes(std::span(*bytes))) != object.hash) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{}: it does not match the manifest", where);
  }
  absl::StatusOr<ArchiveDirectory> directory =
      DecodeDirectory(*bytes, manifest);
  if (!directory.ok()) return Annotate(directory.status(), where);
  return directory;
}

}  // namespace

absl::StatusOr<ArchiveManifest> ReadManifest(ObjectStore& store,
                                             std::string_view run) {
  MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(run));
  const std::string key = fmt::format("{}/{}", folder, kManifestName);
  const absl::StatusOr<std::string> bytes = store.Get(key, kManifestBytesMax);
  if (absl::IsNotFound(bytes.status())) {
    return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                                 "there is no run '{}' in {} ({})", run,
                                 store.url(), Message(bytes.status())),
                      ErrorReason::kRunNotFound);
  }
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<ArchiveManifest> manifest = DecodeManifest(*bytes);
  const std::string where = fmt::format("{}/{}", store.url(), key);
  if (!manifest.ok()) return Annotate(manifest.status(), where);
  if (manifest->run.spec.name != run) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{}: the manifest is of run '{}'", where,
                      manifest->run.spec.name);
  }
  return manifest;
}

absl::StatusOr<std::unique_ptr<RunReader>> OpenArchivedRun(
    std::shared_ptr<ObjectStore> store, std::string_view run,
    LostEntries* lost) {
  MSITD_ASSIGN_OR_RETURN(ArchiveManifest manifest, ReadManifest(*store, run));
  MSITD_ASSIGN_OR_RETURN(std::string folder, RunFolder(run));
  absl::StatusOr<ArchiveDirectory> directory =
      ReadDirectory(*store, folder, manifest);
  if (absl::IsDataLoss(directory.status())) {
    const absl::Status damage = directory.status();
    auto rebuilt = RebuildDirectory(*store, folder, manifest);
    if (absl::IsDataLoss(rebuilt.status())) return damage;
    MSITD_RETURN_IF_ERROR(rebuilt.status());
    if (rebuilt->lost_count > 0 && lost == nullptr) return damage;
    if (lost != nullptr) {
      lost->SetDirectoryDamage(damage);
      lost->Add(LostEntries::kNoBlock, rebuilt->lost_count, damage);
    }
    directory = std::move(rebuilt->directory);
  }
  MSITD_RETURN_IF_ERROR(directory.status());
  return std::make_unique<ArchiveReader>(std::make_unique<ArchivedRun>(
      std::move(store), std::move(folder), std::move(manifest),
      *std::move(directory), lost));
}

void LostEntries::Add(size_t block, uint64_t entry_count,
                      const absl::Status& status) {
  const MutexLock lock(mu_);
  if (entry_count == 0 || !blocks_.insert(block).second) return;
  if (blocks_.size() == 1) first_ = status;
  entry_count_ += entry_count;
}

void LostEntries::SetDirectoryDamage(const absl::Status& status) {
  const MutexLock lock(mu_);
  directory_damage_ = status;
}

absl::Status LostEntries::directory_damage() {
  const MutexLock lock(mu_);
  return directory_damage_;
}
uint64_t LostEntries::entry_count() {
  const MutexLock lock(mu_);
  return entry_count_;
}

absl::Status LostEntries::first() {
  const MutexLock lock(mu_);
  return first_;
}

absl::StatusOr<std::vector<std::string>> ListArchivedRuns(ObjectStore& store) {
  MSITD_ASSIGN_OR_RETURN(const ObjectList list, store.List(""));
  std::vector<std::string> out;
  for (const std::string& folder : list.folders) {
    std::string run = RunOfFolder(folder);
    if (!run.empty()) out.push_back(std::move(run));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace msitd::storage
