// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_writer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "protos/base/resource_name.h"
#include "protos/chunk/chunk.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "storage/archive/archive_url.h"
#include "storage/archive/object_uploader.h"
#include "storage/archive/pack_writer.h"
#include "storage/batch/entry_batch.h"
#include "storage/face/runs.h"

namespace msitd::storage {
namespace {

// A block ends where a token does once it has so many entries, so that whoever
// asks for one token reads little else.
constexpr size_t kBlockEntries = 512;
// Entries whose parts are read together.
constexpr size_t kWindowEntries = 1024;
constexpr uint64_t kWindowBytes = uint64_t{8} << 20;
constexpr size_t kAttachmentPage = 256;

using ProgressCall = absl::FunctionRef<absl::Status(const ArchiveProgress&)>;

// Gathers what the directory says while entries pass by.
class DirectoryMaker {
 public:
  // Takes all coordinates of the run, in primary order.
  explicit DirectoryMaker(const std::vector<Coordinate>& coordinates) {
    for (const Coordinate& coordinate : coordinates) {
      const uint32_t device = NumberOf(coordinate.device);
      if (directory_.groups.empty() ||
          directory_.groups.back().rank != coordinate.rank ||
          directory_.groups.back().device != device) {
        directory_.groups.push_back({coordinate.rank, device, {}});
      }
      directory_.groups.back().tokens.push_back({coordinate.token, 0});
    }
  }

  // False if the entry is at no coordinate, or out of order.
  bool Count(const TensorKey& key) {
    while (group_ < directory_.groups.size()) {
      ArchiveGroup& group = directory_.groups[group_];
      if (group.rank == key.rank &&
          directory_.devices[group.device] == key.device) {
        while (token_ < group.tokens.size() &&
               group.tokens[token_].token < key.token) {
          ++token_;
        }
        if (token_ == group.tokens.size()) return false;
        if (group.tokens[token_].token != key.token) return false;
        ++group.tokens[token_].entry_count;
        ops_.insert(OpMark(key.op));
        return true;
      }
      ++group_;
      token_ = 0;
    }
    return false;
  }

  void EndBlock(const PackPlace& place, std::string_view bytes,
                uint64_t entry_count) {
    ArchiveBlock& block = directory_.blocks.emplace_back();
    block.index = place.pack;
    block.offset = place.offset;
    block.bytes = bytes.size();
    block.hash = chunk::HashBytes(std::as_bytes(std::span(bytes)));
    block.entry_count = entry_count;
    block.ops.assign(ops_.begin(), ops_.end());
    ops_.clear();
  }

  ArchiveDirectory& directory() { return directory_; }

 private:
  uint32_t NumberOf(const std::string& device) {
    const auto [it, is_new] =
        numbers_.emplace(device, static_cast<uint32_t>(numbers_.size()));
    if (is_new) directory_.devices.push_back(device);
    return it->second;
  }

  ArchiveDirectory directory_;
  std::map<std::string, uint32_t> numbers_;
  size_t group_ = 0;
  size_t token_ = 0;
  std::set<uint32_t> ops_;
};

bool IsExpiry(const absl::Status& status) {
  return HasReason(status, ErrorReason::kTensorExpired);
}

class Writer {
 public:
  Writer(const ArchiveRequest& request, std::string folder,
         ProgressCall progress)
      : run_(*request.run),
        attachments_(request.attachments),
        store_(*request.store),
        folder_(std::move(folder)),
        progress_(progress),
        uploader_(store_),
        packs_("pack", folder_, uploader_),
        indexes_("index", folder_, uploader_) {}

  absl::StatusOr<ArchiveManifest> Write(const RunInfo& info, int64_t now_ns) {
    manifest_.run = info;
    manifest_.archive_time_ns = now_ns;
    entry_total_ = info.counters.record_count();
    MSITD_ASSIGN_OR_RETURN(manifest_.coverage, run_.ListCoverage());
    MSITD_ASSIGN_OR_RETURN(const auto coordinates, run_.ListCoordinates({}));
    directory_.emplace(coordinates);
    MSITD_ASSIGN_OR_RETURN(directory_->directory().placements,
                           run_.ListPlacements());
    MSITD_RETURN_IF_ERROR(WriteEntries());
    MSITD_RETURN_IF_ERROR(WriteAttachments());
    MSITD_RETURN_IF_ERROR(EndBlock());
    MSITD_RETURN_IF_ERROR(packs_.Finish(stop_));
    MSITD_RETURN_IF_ERROR(indexes_.Finish(stop_));
    std::string directory = EncodeDirectory(directory_->directory());
    if (directory.size() > kDirectoryBytesMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "the directory of the archive would have {} bytes, of "
                        "at most {}",
                        directory.size(), kDirectoryBytesMax);
    }
    manifest_.directory = NameObject("directory", directory);
    MSITD_RETURN_IF_ERROR(uploader_.Add(folder_, manifest_.directory,
                                        std::move(directory), stop_));
    MSITD_RETURN_IF_ERROR(uploader_.Finish(stop_));
    manifest_.packs = packs_.objects();
    manifest_.indexes = indexes_.objects();
    manifest_.part_count = parts_.size();
    MSITD_RETURN_IF_ERROR(Report());
    return std::move(manifest_);
  }

 private:
  absl::Status Report() {
    return progress_({manifest_.entry_count,
                      std::max(entry_total_, manifest_.entry_count),
                      uploader_.sent_bytes(), uploader_.verified_bytes()});
  }

  absl::Status WriteEntries() {
    Selector all;
    for (int kind = 0; kind < kRecordKindCount; ++kind) {
      all.kinds.push_back(static_cast<RecordKind>(kind));
    }
    std::string position;
    uint64_t window_bytes = 0;
    auto scan = run_.Scan(all, position);
    while (true) {
      if (!scan.ok()) return scan.status();
      TensorInfo tensor;
      const auto found = (*scan)->Next(tensor, stop_);
      if (absl::IsUnavailable(found.status())) {
        position = (*scan)->position();
        scan = run_.Scan(all, position);
        continue;
      }
      if (!found.ok()) return found.status();
      if (!*found) break;
      for (const PartInfo& part : tensor.parts) {
        if (part.has_bytes) window_bytes += part.bytes;
      }
      window_.push_back(std::move(tensor));
      if (window_.size() >= kWindowEntries || window_bytes >= kWindowBytes) {
        MSITD_RETURN_IF_ERROR(WriteWindow());
        window_bytes = 0;
      }
    }
    return WriteWindow();
  }

  absl::Status WriteWindow() {
    MSITD_RETURN_IF_ERROR(Report());
    MSITD_RETURN_IF_ERROR(PackParts());
    for (TensorInfo& tensor : window_) {
      MSITD_RETURN_IF_ERROR(PlaceParts(tensor));
      MSITD_RETURN_IF_ERROR(AddEntry(tensor));
    }
    window_.clear();
    return absl::OkStatus();
  }

  // Puts the bytes of the window's parts that are not there yet into packs.
  absl::Status PackParts() {
    std::vector<PartInfo> wanted;
    std::set<std::tuple<uint64_t, uint64_t, uint64_t>> seen;
    for (const TensorInfo& tensor : window_) {
      if (!tensor.has_bytes && !tensor.has_sample) continue;
      for (const PartInfo& part : tensor.parts) {
        if (part.has_bytes && part.bytes > 0 &&
            !parts_.Find(part.hash, part.bytes).has_value() &&
            seen.emplace(part.hash.low, part.hash.high, part.bytes).second) {
          wanted.push_back(part);
        }
      }
    }
    size_t done = 0;
    while (done < wanted.size()) {
      const auto batch =
          run_.ReadParts(std::span(wanted).subspan(done), batch_buffer_);
      for (size_t i = 0; i < batch->size(); ++i) {
        const auto bytes = batch->Read(i);
        if (IsExpiry(bytes.status())) continue;
        if (!bytes.ok()) return bytes.status();
        MSITD_ASSIGN_OR_RETURN(const PackPlace place,
                               packs_.Add(*bytes, stop_));
        parts_.Add(wanted[done + i].hash, wanted[done + i].bytes, place);
      }
      done += batch->size();
    }
    return absl::OkStatus();
  }

  // Gives the parts of a tensor their places in the archive.
  absl::Status PlaceParts(TensorInfo& tensor) {
    std::vector<std::optional<PackPlace>> places(tensor.parts.size());
    if (tensor.has_bytes || tensor.has_sample) {
      MSITD_ASSIGN_OR_RETURN(const bool is_whole, FindParts(tensor, places));
      if (!is_whole) MSITD_RETURN_IF_ERROR(TakeExpiry(tensor, places));
    }
    for (size_t i = 0; i < tensor.parts.size(); ++i) {
      PartInfo& part = tensor.parts[i];
      if (part.has_bytes && part.bytes == 0) places[i] = PackPlace{};
      MSITD_ASSIGN_OR_RETURN(
          part.place,
          ArchivedPlace(part.place,
                        places[i].has_value() ? &*places[i] : nullptr));
    }
    return absl::OkStatus();
  }

  // False if something of it was given up since the scan found it.
  absl::StatusOr<bool> FindParts(
      const TensorInfo& tensor, std::vector<std::optional<PackPlace>>& places) {
    for (size_t i = 0; i < tensor.parts.size(); ++i) {
      const PartInfo& part = tensor.parts[i];
      if (part.has_bytes && part.bytes == 0) continue;
      if (part.has_bytes) {
        places[i] = parts_.Find(part.hash, part.bytes);
        if (!places[i].has_value()) return false;
      } else if (part.has_sample) {
        const auto sample = run_.ReadSample(tensor, i, sample_buffer_);
        if (IsExpiry(sample.status())) return false;
        if (!sample.ok()) return sample.status();
        MSITD_ASSIGN_OR_RETURN(places[i], packs_.Add(*sample, stop_));
      }
    }
    return true;
  }

  // Retention has taken bytes of the tensor meanwhile: it is archived as it is
  // now.
  absl::Status TakeExpiry(TensorInfo& tensor,
                          std::vector<std::optional<PackPlace>>& places) {
    places.assign(places.size(), std::nullopt);
    MSITD_ASSIGN_OR_RETURN(const TensorInfo now, run_.GetTensor(tensor.key));
    if (now.has_bytes || now.has_sample || now.parts.size() != places.size()) {
      return MakeStatus(absl::StatusCode::kUnavailable,
                        "bytes of {} are listed but not there",
                        FormatTensorName(tensor.key));
    }
    tensor = now;
    return absl::OkStatus();
  }

  absl::Status AddEntry(const TensorInfo& tensor) {
    const TensorKey& key = tensor.key;
    const bool is_next = !last_.has_value() || key.rank != last_->rank ||
                         key.token != last_->token ||
                         key.device != last_->device;
    if (batch_.is_full() ||
        (is_next && batch_.entry_count() >= kBlockEntries)) {
      MSITD_RETURN_IF_ERROR(EndBlock());
    }
    if (is_next) last_ = Coordinate{key.rank, key.device, key.token};
    if (!directory_->Count(key)) {
      return MakeStatus(absl::StatusCode::kInternal,
                        "{} is where the run has nothing",
                        FormatTensorName(tensor.key));
    }
    batch_.Add(tensor);
    ++manifest_.entry_count;
    return absl::OkStatus();
  }

  absl::Status EndBlock() {
    const size_t entry_count = batch_.entry_count();
    if (entry_count == 0) return absl::OkStatus();
    const std::string bytes = batch_.Finish();
    MSITD_ASSIGN_OR_RETURN(
        const PackPlace place,
        indexes_.Add(std::as_bytes(std::span(bytes)), stop_));
    directory_->EndBlock(place, bytes, entry_count);
    return absl::OkStatus();
  }

  absl::Status WriteAttachments() {
    if (attachments_ == nullptr) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(
        const std::vector<AttachmentInfo> infos,
        attachments_->ListAttachments(run_.name(), "", kAttachmentPage));
    for (const AttachmentInfo& info : infos) {
      MSITD_ASSIGN_OR_RETURN(std::string bytes, attachments_->ReadAttachment(
                                                    info, 0, info.size_bytes));
      const ArchiveObject object = NameObject("attachment", bytes);
      if (object.hash != info.hash) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "attachment '{}' does not match its hash", info.name);
      }
      manifest_.attachments.push_back({info, object});
      MSITD_RETURN_IF_ERROR(
          uploader_.Add(folder_, object, std::move(bytes), stop_));
    }
    return absl::OkStatus();
  }

  RunReader& run_;
  Attachments* const attachments_;
  ObjectStore& store_;
  const std::string folder_;
  const ProgressCall progress_;
  const std::function<absl::Status()> stop_ = [this] { return Report(); };
  ArchiveManifest manifest_;
  uint64_t entry_total_ = 0;
  std::optional<DirectoryMaker> directory_;
  std::vector<TensorInfo> window_;
  EntryBatchWriter batch_;
  std::optional<Coordinate> last_;  // Of the entry before.
  PackedParts parts_;
  AlignedBuffer batch_buffer_;
  AlignedBuffer sample_buffer_;
  ObjectUploader uploader_;
  ObjectPacker packs_;
  ObjectPacker indexes_;
};

// Removes what was written for `manifest` and is no part of `kept`.
void RemoveOthers(ObjectStore& store, const std::string& folder,
                  const ArchiveManifest& manifest,
                  const ArchiveManifest& kept) {
  std::set<std::string> names;
  const auto each = [](const ArchiveManifest& from, auto take) {
    take(from.directory.name);
    for (const ArchiveObject& object : from.indexes) take(object.name);
    for (const ArchiveObject& object : from.packs) take(object.name);
    for (const ArchivedAttachment& one : from.attachments) {
      take(one.object.name);
    }
  };
  each(manifest, [&](const std::string& name) { names.insert(name); });
  each(kept, [&](const std::string& name) { names.erase(name); });
  // What stays costs room and nothing else.
  for (const std::string& name : names) {
    (void)store.Delete(folder + "/" + name);
  }
}

}  // namespace

absl::StatusOr<ArchiveManifest> WriteArchive(const ArchiveRequest& request,
                                             ProgressCall progress) {
  MSITD_ASSIGN_OR_RETURN(const RunInfo info, request.run->GetInfo());
  if (info.spec.restoring) return RunRestoring(info.spec.name);
  if (!info.sealed) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "run '{}' is active: only a sealed run is archived",
                      info.spec.name);
  }
  MSITD_ASSIGN_OR_RETURN(const std::string folder, RunFolder(info.spec.name));
  ArchiveManifest manifest;
  {
    Writer writer(request, folder, progress);
    MSITD_ASSIGN_OR_RETURN(manifest, writer.Write(info, request.now_ns));
  }
  const std::string key = fmt::format("{}/{}", folder, kManifestName);
  const std::string bytes = EncodeManifest(manifest);
  if (bytes.size() > kManifestBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "the manifest of the archive would have {} bytes, of at "
                      "most {}",
                      bytes.size(), kManifestBytesMax);
  }
  ObjectStore& store = *request.store;
  const absl::Status put =
      store.PutIfAbsent(key, std::as_bytes(std::span(bytes)));
  if (!put.ok() && !absl::IsAlreadyExists(put)) return put;
  MSITD_ASSIGN_OR_RETURN(const std::string there,
                         store.Get(key, kManifestBytesMax));
  absl::StatusOr<ArchiveManifest> kept = DecodeManifest(there);
  if (!kept.ok()) return Annotate(kept.status(), store.url() + "/" + key);
  if (ContentOf(*kept) == ContentOf(manifest)) return kept;
  RemoveOthers(store, folder, manifest, *kept);
  const bool is_same_run =
      kept->run.id == manifest.run.id &&
      kept->run.create_time_ns == manifest.run.create_time_ns;
  return WithReason(
      MakeStatus(absl::StatusCode::kAlreadyExists, "{}/{} holds {}",
                 store.url(), folder,
                 is_same_run ? "this run as it was before something of it was "
                               "given up, or attached to it"
                             : "another run of that name"),
      ErrorReason::kRunExists);
}

}  // namespace msitd::storage
