// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/run_packer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "protos/base/resource_name.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "storage/archive/directory_builder.h"
#include "storage/archive/object_uploader.h"
#include "storage/archive/pack_writer.h"
#include "storage/batch/entry_batch.h"

namespace msitd::storage {
namespace {

// After this many entries, a block ends at the end of a token, so that reading
// a single token reads few other entries.
constexpr size_t kBlockEntries = 512;
// Number of entries whose parts are read together.
constexpr size_t kWindowEntries = 1024;
constexpr uint64_t kWindowBytes = uint64_t{8} << 20;
constexpr size_t kAttachmentPage = 256;

bool IsExpiry(const absl::Status& status) {
  return HasReason(status, ErrorReason::kTensorExpired);
}

// The archived form of one part, and the reason if it has no bytes.
struct PlacedPart {
  ArchivedBytes bytes;
  absl::Status problem;  // Set for kUnreadable.
};

bool HasUnreadable(const std::vector<PlacedPart>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const PlacedPart& part) {
    return part.bytes.state == PackedBytes::kUnreadable;
  });
}

class RunPacker {
 public:
  RunPacker(const ArchiveRequest& request, const std::string& folder,
            const ArchivedCopy* copy, ArchiveProgressCall progress,
            ArchiveManifest& manifest)
      : run_(*request.run),
        folder_(folder),
        copy_(copy),
        progress_(progress),
        manifest_(manifest),
        uploader_(*request.store),
        packs_("pack", folder_, uploader_),
        indexes_("index", folder_, uploader_) {}

  absl::StatusOr<PackedRun> Pack(const RunInfo& info) {
    const absl::Status status = PackAll(info);
    manifest_.packs = packs_.objects();
    manifest_.indexes = indexes_.objects();
    manifest_.part_count = parts_.size();
    MSITD_RETURN_IF_ERROR(status);
    MSITD_RETURN_IF_ERROR(Report());
    // Bytes may have been discarded after their tensors were examined.
    if (given_up_count_ > 0) {
      MSITD_ASSIGN_OR_RETURN(const bool has_expired, HasExpiredSince(*copy_));
      if (has_expired) out_.lost_count += given_up_count_;
    }
    return out_;
  }

 private:
  absl::Status Report() {
    return progress_({manifest_.entry_count,
                      std::max(entry_total_, manifest_.entry_count),
                      uploader_.sent_bytes(), uploader_.verified_bytes()});
  }

  absl::Status PackAll(const RunInfo& info) {
    entry_total_ = info.counters.record_count();
    MSITD_ASSIGN_OR_RETURN(const auto coordinates, run_.ListCoordinates({}));
    for (const Coordinate& coordinate : coordinates) {
      directory_.AddCoordinate(coordinate);
    }
    MSITD_ASSIGN_OR_RETURN(directory_.directory().placements,
                           run_.ListPlacements());
    MSITD_RETURN_IF_ERROR(PackEntries());
    MSITD_RETURN_IF_ERROR(EndBlock());
    MSITD_RETURN_IF_ERROR(packs_.Finish(stop_));
    MSITD_RETURN_IF_ERROR(indexes_.Finish(stop_));
    std::string directory = EncodeDirectory(directory_.directory());
    if (directory.size() > kDirectoryBytesMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "the directory of the archive would have {} bytes, of "
                        "at most {}",
                        directory.size(), kDirectoryBytesMax);
    }
    manifest_.directory = NameObject("directory", directory);
    MSITD_RETURN_IF_ERROR(uploader_.Add(folder_, manifest_.directory,
                                        std::move(directory), stop_));
    return uploader_.Finish(stop_);
  }

  static Selector AllKinds() {
    Selector all;
    all.kinds = EveryRecordKind();
    return all;
  }

  // An archive has no tensors with missing parts, so they are counted as
  // missing from each rank. Scans of all ranks at once do not report the rank
  // of such tensors.
  absl::Status CountIncomplete() {
    MSITD_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks, run_.ListRanks());
    for (const int32_t rank : ranks) {
      Selector selector = AllKinds();
      selector.ranks = {rank};
      MSITD_ASSIGN_OR_RETURN(const auto scan, run_.Scan(selector, ""));
      TensorInfo tensor;
      while (true) {
        MSITD_ASSIGN_OR_RETURN(const bool is_found, scan->Next(tensor, stop_));
        if (!is_found) break;
      }
      if (scan->incomplete_count() == 0) continue;
      std::vector<RankCoverage>& coverage = manifest_.coverage;
      auto known = std::lower_bound(
          coverage.begin(), coverage.end(), rank,
          [](const RankCoverage& a, int32_t b) { return a.rank < b; });
      if (known == coverage.end() || known->rank != rank) {
        known = coverage.insert(known,
                                {.rank = rank, .stream_count = 1, .total = {}});
      }
      known->total.truncated_count += scan->incomplete_count();
    }
    return absl::OkStatus();
  }

  absl::Status PackEntries() {
    const Selector all = AllKinds();
    uint64_t incomplete_count = 0;
    std::string position;
    uint64_t window_bytes = 0;
    auto scan = run_.Scan(all, position);
    while (true) {
      if (!scan.ok()) return scan.status();
      TensorInfo tensor;
      const auto found = (*scan)->Next(tensor, stop_);
      if (absl::IsUnavailable(found.status())) {
        position = (*scan)->position();
        incomplete_count += (*scan)->incomplete_count();
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
        MSITD_RETURN_IF_ERROR(PackWindow());
        window_bytes = 0;
      }
    }
    incomplete_count += (*scan)->incomplete_count();
    MSITD_RETURN_IF_ERROR(PackWindow());
    return incomplete_count == 0 ? absl::OkStatus() : CountIncomplete();
  }

  absl::Status PackWindow() {
    MSITD_RETURN_IF_ERROR(Report());
    MSITD_RETURN_IF_ERROR(PackParts());
    for (TensorInfo& tensor : window_) {
      MSITD_RETURN_IF_ERROR(PlaceParts(tensor));
      MSITD_RETURN_IF_ERROR(AddEntry(tensor));
    }
    window_.clear();
    unreadable_.clear();
    return absl::OkStatus();
  }

  // Adds the bytes of the window's parts to packs, unless they are already
  // packed.
  absl::Status PackParts() {
    std::vector<PartInfo> wanted;
    std::set<std::tuple<uint64_t, uint64_t, uint64_t>> seen;
    for (const TensorInfo& tensor : window_) {
      if (!tensor.has_bytes && !tensor.has_sample) continue;
      for (const PartInfo& part : tensor.parts) {
        if (part.has_bytes && part.bytes > 0 &&
            !parts_.Find(part.hash, part.bytes).has_value() &&
            seen.insert(KeyOf(part)).second) {
          wanted.push_back(part);
        }
      }
    }
    MSITD_RETURN_IF_ERROR(PackEach(wanted));
    return unreadable_.empty() ? absl::OkStatus() : PackCopies();
  }

  // Replaces the bytes of unreadable parts by equal bytes of other records of
  // the window.
  absl::Status PackCopies() {
    std::map<PartKey, std::vector<PartInfo>> copies;
    for (const TensorInfo& tensor : window_) {
      if (!tensor.has_bytes && !tensor.has_sample) continue;
      for (const PartInfo& part : tensor.parts) {
        if (part.has_bytes && unreadable_.contains(KeyOf(part))) {
          copies[KeyOf(part)].push_back(part);
        }
      }
    }
    // PackParts has tried the first ones.
    for (size_t i = 1; !copies.empty(); ++i) {
      std::erase_if(copies, [&](const auto& copy) {
        return copy.second.size() <= i || !unreadable_.contains(copy.first);
      });
      std::vector<PartInfo> wanted;
      for (const auto& [key, parts] : copies) wanted.push_back(parts[i]);
      MSITD_RETURN_IF_ERROR(PackEach(wanted));
    }
    return absl::OkStatus();
  }

  // Adds the bytes of parts, whose contents differ from each other, to packs.
  absl::Status PackEach(std::span<const PartInfo> wanted) {
    size_t done = 0;
    while (done < wanted.size()) {
      const auto batch = run_.ReadParts(wanted.subspan(done), batch_buffer_);
      for (size_t i = 0; i < batch->size(); ++i) {
        const auto bytes = batch->Read(i);
        if (IsExpiry(bytes.status())) continue;
        if (absl::IsDataLoss(bytes.status())) {
          unreadable_.emplace(KeyOf(wanted[done + i]), bytes.status());
          continue;
        }
        if (!bytes.ok()) return bytes.status();
        MSITD_ASSIGN_OR_RETURN(const PackPlace place,
                               packs_.Add(*bytes, stop_));
        parts_.Add(wanted[done + i].hash, wanted[done + i].bytes, place);
        unreadable_.erase(KeyOf(wanted[done + i]));
      }
      done += batch->size();
    }
    return absl::OkStatus();
  }

  // Sets the archived locations of the parts of a tensor.
  absl::Status PlaceParts(TensorInfo& tensor) {
    std::vector<PlacedPart> parts(tensor.parts.size());
    if (tensor.has_bytes || tensor.has_sample) {
      MSITD_ASSIGN_OR_RETURN(const bool is_current, FindParts(tensor, parts));
      if (!is_current) MSITD_RETURN_IF_ERROR(AcceptExpiry(tensor, parts));
    }
    if (copy_ != nullptr && (LacksBytes(tensor) || HasUnreadable(parts))) {
      MSITD_RETURN_IF_ERROR(TakeFromCopy(*copy_, tensor, parts));
    }
    if (HasUnreadable(parts)) RecordUnreadable(tensor, parts);
    for (size_t i = 0; i < tensor.parts.size(); ++i) {
      PartInfo& part = tensor.parts[i];
      if (part.has_bytes && part.bytes == 0) {
        parts[i].bytes = {PackedBytes::kPacked, {}};
      }
      MSITD_ASSIGN_OR_RETURN(part.place,
                             ArchivedPlace(part.place, parts[i].bytes));
    }
    return absl::OkStatus();
  }

  // True if the copy may have bytes of the tensor that the store does not have.
  static bool LacksBytes(const TensorInfo& tensor) {
    return !tensor.has_bytes &&
           std::any_of(tensor.parts.begin(), tensor.parts.end(), HadBytes);
  }

  // True if the store once had bytes or a sample of the part.
  static bool HadBytes(const PartInfo& part) {
    return part.has_bytes || part.has_sample;
  }

  // False if some of its bytes were discarded since the scan found it.
  absl::StatusOr<bool> FindParts(const TensorInfo& tensor,
                                 std::vector<PlacedPart>& parts) {
    for (size_t i = 0; i < tensor.parts.size(); ++i) {
      const PartInfo& part = tensor.parts[i];
      if (part.has_bytes && part.bytes == 0) continue;
      if (part.has_bytes) {
        if (!FindPacked(part, parts[i])) return false;
      } else if (part.has_sample) {
        MSITD_ASSIGN_OR_RETURN(const bool is_current,
                               PackSample(run_, tensor, i, parts[i]));
        if (!is_current) return false;
      }
    }
    return true;
  }

  // Sets the result of PackParts for the bytes of a part; false if they were
  // discarded.
  bool FindPacked(const PartInfo& part, PlacedPart& out) {
    if (const auto place = parts_.Find(part.hash, part.bytes)) {
      out.bytes = {PackedBytes::kPacked, *place};
      return true;
    }
    const auto problem = unreadable_.find(KeyOf(part));
    if (problem == unreadable_.end()) return false;
    out = {{PackedBytes::kUnreadable}, problem->second};
    return true;
  }

  // False if the sample was discarded.
  absl::StatusOr<bool> PackSample(RunReader& run, const TensorInfo& tensor,
                                  size_t part, PlacedPart& out) {
    const auto sample = run.ReadSample(tensor, part, read_buffer_);
    if (IsExpiry(sample.status())) return false;
    if (absl::IsDataLoss(sample.status())) {
      out = {{PackedBytes::kUnreadable}, sample.status()};
      return true;
    }
    if (!sample.ok()) return sample.status();
    out.bytes.state = PackedBytes::kPacked;
    MSITD_ASSIGN_OR_RETURN(out.bytes.place, packs_.Add(*sample, stop_));
    return true;
  }

  // Retention has discarded bytes of the tensor since the scan: the tensor is
  // archived in its current state.
  absl::Status AcceptExpiry(TensorInfo& tensor,
                            std::vector<PlacedPart>& parts) {
    parts.assign(parts.size(), {});
    MSITD_ASSIGN_OR_RETURN(const TensorInfo now, run_.GetTensor(tensor.key));
    if (now.has_bytes || now.has_sample || now.parts.size() != parts.size()) {
      return MakeStatus(absl::StatusCode::kUnavailable,
                        "bytes of {} are listed but not there",
                        FormatTensorName(tensor.key));
    }
    tensor = now;
    return absl::OkStatus();
  }

  // Uses the tensor of the copy, if the copy has more of its bytes.
  absl::Status TakeFromCopy(const ArchivedCopy& copy, TensorInfo& tensor,
                            std::vector<PlacedPart>& parts) {
    if (copy.reader == nullptr) {
      return AddLost(copy, tensor,
                     MakeStatus(absl::StatusCode::kDataLoss,
                                "the directory of the archive is damaged"),
                     parts);
    }
    const auto archived = copy.reader->GetTensor(tensor.key);
    if (absl::IsNotFound(archived.status()) ||
        absl::IsDataLoss(archived.status())) {
      return AddLost(copy, tensor, archived.status(), parts);
    }
    MSITD_RETURN_IF_ERROR(archived.status());
    const bool has_more =
        archived->has_bytes || (archived->has_sample && !tensor.has_bytes);
    if (!has_more) return absl::OkStatus();
    if (archived->parts.size() != tensor.parts.size()) {
      return AddLost(copy, tensor,
                     MakeStatus(absl::StatusCode::kDataLoss,
                                "the archive has {} parts of it, the store {}",
                                archived->parts.size(), tensor.parts.size()),
                     parts);
    }
    std::vector<PlacedPart> taken = parts;
    for (size_t i = 0; i < taken.size(); ++i) {
      if (parts[i].bytes.state == PackedBytes::kPacked) continue;
      MSITD_RETURN_IF_ERROR(PackFromCopy(*archived, i, taken[i]));
    }
    parts = std::move(taken);
    tensor = *archived;
    for (PartInfo& part : tensor.parts) part.place = ReceivedPlace(part.place);
    return absl::OkStatus();
  }

  // Counts a tensor whose bytes the copy may have but cannot provide. Those
  // that the store has discarded since the copy was made become unreadable.
  absl::Status AddLost(const ArchivedCopy& copy, const TensorInfo& tensor,
                       const absl::Status& problem,
                       std::vector<PlacedPart>& parts) {
    if (LacksBytes(tensor) && !tensor.has_sample) {
      MSITD_ASSIGN_OR_RETURN(const bool has_expired, HasExpiredSince(copy));
      if (!has_expired) {
        ++given_up_count_;
        return absl::OkStatus();
      }
      for (size_t i = 0; i < parts.size(); ++i) {
        if (!HadBytes(tensor.parts[i])) continue;
        parts[i] = {{PackedBytes::kUnreadable}, problem};
      }
    }
    if (HasUnreadable(parts)) ++out_.lost_count;
    return absl::OkStatus();
  }

  // True if bytes of the run were discarded since the copy was made.
  absl::StatusOr<bool> HasExpiredSince(const ArchivedCopy& copy) {
    MSITD_ASSIGN_OR_RETURN(const RunInfo now, run_.GetInfo());
    return now.counters.expired_bytes >
           copy.manifest.run.counters.expired_bytes;
  }

  absl::Status PackFromCopy(const TensorInfo& archived, size_t number,
                            PlacedPart& out) {
    const PartInfo& part = archived.parts[number];
    if (part.has_bytes && part.bytes == 0) return absl::OkStatus();
    if (!part.has_bytes) {
      if (!part.has_sample) return absl::OkStatus();
      return PackSample(*copy_->reader, archived, number, out).status();
    }
    if (const auto place = parts_.Find(part.hash, part.bytes)) {
      out.bytes = {PackedBytes::kPacked, *place};
      return absl::OkStatus();
    }
    const auto bytes = copy_->reader->ReadPart(part, read_buffer_);
    if (absl::IsDataLoss(bytes.status())) {
      // Damage in the store can be repaired, so it is the more useful reason.
      if (out.problem.ok()) out.problem = bytes.status();
      out.bytes = {PackedBytes::kUnreadable};
      return absl::OkStatus();
    }
    if (IsExpiry(bytes.status())) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(bytes.status());
    out.bytes.state = PackedBytes::kPacked;
    MSITD_ASSIGN_OR_RETURN(out.bytes.place, packs_.Add(*bytes, stop_));
    parts_.Add(part.hash, part.bytes, out.bytes.place);
    return absl::OkStatus();
  }

  void RecordUnreadable(const TensorInfo& tensor,
                        const std::vector<PlacedPart>& parts) {
    UnreadableItems& items = manifest_.unreadable;
    const auto first =
        std::find_if(parts.begin(), parts.end(), [](const PlacedPart& part) {
          return part.bytes.state == PackedBytes::kUnreadable;
        });
    items.Add(items.tensor_count, FormatTensorName(tensor.key),
              Message(first->problem));
    if (std::any_of(parts.begin(), parts.end(), [](const PlacedPart& part) {
          return part.bytes.state == PackedBytes::kUnreadable &&
                 HasReason(part.problem, ErrorReason::kSegmentMissing);
        })) {
      ++items.missing_count;
    }
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
    if (!directory_.AddEntry(key)) {
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
    directory_.EndBlock(place, bytes, entry_count);
    return absl::OkStatus();
  }

  using PartKey = std::tuple<uint64_t, uint64_t, uint64_t>;
  static PartKey KeyOf(const PartInfo& part) {
    return {part.hash.low, part.hash.high, part.bytes};
  }

  RunReader& run_;
  const std::string& folder_;
  const ArchivedCopy* const copy_;  // Null if the run is archived for the first
                                    // time.
  const ArchiveProgressCall progress_;
  ArchiveManifest& manifest_;
  PackedRun out_;
  // Tensors that the store had apparently discarded before the copy was made,
  // and that cannot be found in the copy.
  uint64_t given_up_count_ = 0;
  const std::function<absl::Status()> stop_ = [this] { return Report(); };
  uint64_t entry_total_ = 0;
  DirectoryBuilder directory_;
  std::vector<TensorInfo> window_;
  // Parts of the window that cannot be read, and why.
  std::map<PartKey, absl::Status> unreadable_;
  EntryBatchWriter batch_;
  std::optional<Coordinate> last_;  // Coordinate of the previous entry.
  PackedParts parts_;
  AlignedBuffer batch_buffer_;
  AlignedBuffer read_buffer_;
  ObjectUploader uploader_;
  ObjectPacker packs_;
  ObjectPacker indexes_;
};

// Reads an attachment of the store and checks its bytes against its hash.
absl::StatusOr<std::string> ReadWhole(Attachments& attachments,
                                      const AttachmentInfo& info) {
  MSITD_ASSIGN_OR_RETURN(std::string bytes,
                         attachments.ReadAttachment(info, 0, info.size_bytes));
  if (NameObject("attachment", bytes).hash == info.hash) return bytes;
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "attachment '{}' does not match its hash", info.name);
}

}  // namespace

absl::StatusOr<PackedRun> PackRun(const ArchiveRequest& request,
                                  const std::string& folder,
                                  const RunInfo& info, const ArchivedCopy* copy,
                                  ArchiveProgressCall progress,
                                  ArchiveManifest& manifest) {
  // The copy has the bytes that were discarded since then, so its counters
  // apply.
  manifest.run =
      copy != nullptr && copy->reader != nullptr ? copy->manifest.run : info;
  MSITD_ASSIGN_OR_RETURN(manifest.coverage, request.run->ListCoverage());
  return RunPacker(request, folder, copy, progress, manifest).Pack(info);
}

absl::Status PackAttachments(const ArchiveRequest& request,
                             const std::string& folder,
                             ArchiveProgressCall progress,
                             ArchiveManifest& manifest) {
  if (request.attachments == nullptr) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(const std::vector<AttachmentInfo> infos,
                         request.attachments->ListAttachments(
                             request.run->name(), "", kAttachmentPage));
  ObjectUploader uploader(*request.store);
  const auto stop = [&] {
    return progress({manifest.entry_count, manifest.entry_count,
                     uploader.sent_bytes(), uploader.verified_bytes()});
  };
  UnreadableItems& unreadable = manifest.unreadable;
  for (const AttachmentInfo& info : infos) {
    const auto known = std::find_if(
        manifest.attachments.begin(), manifest.attachments.end(),
        [&](const auto& one) { return one.info.name == info.name; });
    const bool is_archived = known != manifest.attachments.end() &&
                             known->info.hash == info.hash &&
                             known->info.media_type == info.media_type;
    absl::StatusOr<std::string> bytes = ReadWhole(*request.attachments, info);
    if (absl::IsDataLoss(bytes.status())) {
      if (is_archived) continue;
      unreadable.Add(unreadable.attachment_count,
                     fmt::format("attachment {}", info.name),
                     Message(bytes.status()));
      continue;
    }
    MSITD_RETURN_IF_ERROR(bytes.status());
    const ArchivedAttachment archived{info, NameObject("attachment", *bytes)};
    if (known != manifest.attachments.end()) {
      if (!is_archived) *known = archived;
    } else {
      manifest.attachments.push_back(archived);
    }
    MSITD_RETURN_IF_ERROR(
        uploader.Add(folder, archived.object, *std::move(bytes), stop));
  }
  MSITD_RETURN_IF_ERROR(uploader.Finish(stop));
  return stop();
}

}  // namespace msitd::storage
