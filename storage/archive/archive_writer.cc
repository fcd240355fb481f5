// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_writer.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "protos/base/attachment_limits.h"
#include "protos/status/status.h"
#include "storage/archive/archive_error.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_url.h"
#include "storage/archive/object_uploader.h"
#include "storage/archive/run_packer.h"
#include "storage/face/runs.h"

namespace msitd::storage {
namespace {

// Maximum number of attempts when the manifest is changed by others.
constexpr int kTriesMax = 3;

bool IsSameRun(const RunInfo& a, const RunInfo& b) {
  return a.id == b.id && a.create_time_ns == b.create_time_ns;
}

// Removes the objects of `written` that the manifest in the folder does not
// name. The manifest may belong to another run with equal objects. An object
// that remains only costs space.
void RemoveOthers(ObjectStore& store, const std::string& folder,
                  const ArchiveManifest& written, const std::string& run) {
  const auto kept = ReadManifest(store, run);
  if (!kept.ok() && !HasReason(kept.status(), ErrorReason::kRunNotFound)) {
    return;
  }
  std::set<std::string> names;
  for (const ArchiveObject& object : written.Objects()) {
    if (!object.name.empty()) names.insert(object.name);
  }
  if (kept.ok()) {
    for (const ArchiveObject& object : kept->Objects()) {
      names.erase(object.name);
    }
  }
  for (const std::string& name : names) {
    (void)store.Delete(folder + "/" + name);
  }
}

class ArchiveWriter {
 public:
  ArchiveWriter(const ArchiveRequest& request, RunInfo info, std::string folder,
                ArchiveProgressCall progress)
      : request_(request),
        store_(*request.store),
        info_(std::move(info)),
        folder_(std::move(folder)),
        progress_(progress) {}

  absl::StatusOr<ArchiveManifest> Write() {
    for (int tries = 1;; ++tries) {
      missing_count_ = 0;
      MSITD_ASSIGN_OR_RETURN(const std::optional<ArchiveManifest> kept,
                             FindKept());
      auto written = kept.has_value() ? WriteBeside(*kept) : WriteNew();
      // Another process has archived the run, or pruned the archive, at the
      // same time.
      if (!written.ok() && is_overtaken_ && tries < kTriesMax) continue;
      if (written.ok()) written->unreadable.missing_count = missing_count_;
      return written;
    }
  }

 private:
  // Returns the existing manifest of the run.
  //
  // Errors: RUN_EXISTS for another run; those of a damaged manifest.
  absl::StatusOr<std::optional<ArchiveManifest>> FindKept() {
    is_overtaken_ = false;
    absl::StatusOr<ArchiveManifest> kept =
        ReadManifest(store_, info_.spec.name);
    if (HasReason(kept.status(), ErrorReason::kRunNotFound)) {
      return std::nullopt;
    }
    MSITD_RETURN_IF_ERROR(kept.status());
    if (IsSameRun(kept->run, info_)) return *std::move(kept);
    return WithReason(MakeStatus(absl::StatusCode::kAlreadyExists,
                                 "{}/{} holds another run of that name",
                                 store_.url(), folder_),
                      ErrorReason::kRunExists);
  }

  absl::StatusOr<ArchiveManifest> WriteNew() {
    ArchiveManifest manifest;
    const absl::Status status = Pack(nullptr, manifest);
    if (!status.ok()) return Abandon(manifest, status);
    MSITD_ASSIGN_OR_RETURN(const std::string bytes, Encode(manifest));
    // Packing may have taken hours, and not every server prevents PutIfAbsent
    // from replacing a manifest.
    const auto kept = FindKept();
    if (!kept.ok()) return Abandon(manifest, kept.status());
    if (kept->has_value()) {
      is_overtaken_ = true;
      return Overtaken();
    }
    MSITD_RETURN_IF_ERROR(CheckObjects(manifest));
    const absl::Status put =
        store_.PutIfAbsent(ManifestKey(), std::as_bytes(std::span(bytes)));
    if (!put.ok() && !absl::IsAlreadyExists(put)) {
      return Abandon(manifest, put);
    }
    return CheckKept(manifest);
  }

  // Adds missing data to an archive of the same run.
  absl::StatusOr<ArchiveManifest> WriteBeside(const ArchiveManifest& kept) {
    ArchiveManifest manifest = kept;
    const absl::Status damage = VerifyKept(kept);
    const bool is_damaged =
        absl::IsDataLoss(damage) || absl::IsNotFound(damage);
    if (!damage.ok() && !is_damaged) return damage;
    if (!is_damaged && kept.unreadable.empty()) {
      MSITD_RETURN_IF_ERROR(
          PackAttachments(request_, folder_, Forward(), manifest));
    } else {
      const auto reader = OpenArchivedRun(SharedStore(), info_.spec.name);
      const ArchivedCopy copy{kept, reader.ok() ? reader->get() : nullptr};
      manifest = {};
      manifest.attachments = kept.attachments;
      if (const absl::Status status = Pack(&copy, manifest); !status.ok()) {
        return Abandon(manifest, status);
      }
      if (HasLess(manifest, kept)) {
        return Abandon(manifest, CannotMend(damage));
      }
      if (const absl::Status status = VerifyAttachments(manifest);
          !status.ok()) {
        return Abandon(manifest, status);
      }
    }
    if (manifest.attachments.size() > kRunAttachmentsMax) {
      return WithReason(
          MakeStatus(absl::StatusCode::kResourceExhausted,
                     "{}/{} would have {} attachments, those included that the "
                     "run has lost since; at most {} are taken",
                     store_.url(), folder_, manifest.attachments.size(),
                     kRunAttachmentsMax),
          ErrorReason::kAttachmentsExhausted);
    }
    MSITD_RETURN_IF_ERROR(CheckObjects(manifest));
    if (ContentOf(manifest) == ContentOf(kept)) return kept;
    return Replace(kept, manifest);
  }

  // Returns OK if each object of the manifest has the stated bytes.
  absl::Status VerifyKept(const ArchiveManifest& kept) {
    absl::Status damage;
    uint64_t verified = 0;
    for (const ArchiveObject& object : kept.Objects()) {
      MSITD_RETURN_IF_ERROR(progress_(
          {kept.entry_count, kept.entry_count, sent_bytes_, verified}));
      const absl::Status status =
          VerifyObject(store_, folder_ + "/" + object.name, object);
      if (status.ok()) {
        verified += object.bytes;
      } else if (absl::IsDataLoss(status) || absl::IsNotFound(status)) {
        if (damage.ok()) damage = status;
      } else {
        return status;
      }
    }
    verified_bytes_ = verified;
    return damage;
  }

  // Attachments that the run has lost since then exist only here.
  absl::Status VerifyAttachments(const ArchiveManifest& manifest) {
    for (const ArchivedAttachment& one : manifest.attachments) {
      const absl::Status status =
          VerifyObject(store_, folder_ + "/" + one.object.name, one.object);
      if (absl::IsDataLoss(status) || absl::IsNotFound(status)) {
        return CannotMend(status);
      }
      MSITD_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  static absl::Status CannotMend(const absl::Status& damage) {
    return WithReason(
        MakeStatus(absl::StatusCode::kDataLoss,
                   "the archive stays as it is, since the store no longer has "
                   "all of its bytes: {}",
                   damage.ok() ? "some cannot be read" : Message(damage)),
        ErrorReason::kFrameCorrupt);
  }

  absl::Status Pack(const ArchivedCopy* copy, ArchiveManifest& manifest) {
    verified_bytes_ = 0;
    manifest.archive_time_ns = request_.now_ns;
    MSITD_ASSIGN_OR_RETURN(
        packed_, PackRun(request_, folder_, info_, copy, Forward(), manifest));
    missing_count_ = manifest.unreadable.missing_count;
    sent_bytes_ = last_.sent_bytes;
    verified_bytes_ = last_.verified_bytes;
    MSITD_RETURN_IF_ERROR(
        PackAttachments(request_, folder_, Forward(), manifest));
    sent_bytes_ = last_.sent_bytes;
    verified_bytes_ = last_.verified_bytes;
    return absl::OkStatus();
  }

  // True if `manifest`, which was packed last, may lack bytes that `kept` has.
  bool HasLess(const ArchiveManifest& manifest,
               const ArchiveManifest& kept) const {
    return packed_.lost_count > 0 ||
           manifest.unreadable.tensor_count > kept.unreadable.tensor_count ||
           manifest.part_count < kept.part_count ||
           manifest.PackBytes() < kept.PackBytes();
  }

  // Replaces `kept` with `manifest`. Objects that only `kept` names remain for
  // its readers; `run archive --prune` removes them.
  absl::StatusOr<ArchiveManifest> Replace(const ArchiveManifest& kept,
                                          ArchiveManifest& manifest) {
    manifest.archive_time_ns = request_.now_ns;
    MSITD_ASSIGN_OR_RETURN(const std::string bytes, Encode(manifest));
    MSITD_ASSIGN_OR_RETURN(const ArchiveManifest now,
                           ReadManifest(store_, info_.spec.name));
    if (ContentOf(now) != ContentOf(kept)) {
      is_overtaken_ = true;
      return Overtaken();
    }
    MSITD_RETURN_IF_ERROR(
        store_.Put(ManifestKey(), std::as_bytes(std::span(bytes))));
    return CheckKept(manifest);
  }

  // Returns the manifest that exists after `manifest` was written.
  absl::StatusOr<ArchiveManifest> CheckKept(const ArchiveManifest& manifest) {
    MSITD_ASSIGN_OR_RETURN(const ArchiveManifest kept,
                           ReadManifest(store_, info_.spec.name));
    if (ContentOf(kept) == ContentOf(manifest)) {
      MSITD_RETURN_IF_ERROR(CheckObjects(kept));
      return kept;
    }
    RemoveOthers(store_, folder_, manifest, info_.spec.name);
    is_overtaken_ = true;
    return Overtaken();
  }

  // Returns OK if all objects of the manifest still exist.
  absl::Status CheckObjects(const ArchiveManifest& manifest) {
    absl::Status status = CheckArchivedObjects(
        store_, manifest, [this] { return progress_(last_); });
    is_overtaken_ = HasReason(status, ErrorReason::kSourceFailed);
    return status;
  }

  absl::Status Overtaken() const {
    return WithReason(MakeStatus(absl::StatusCode::kAborted,
                                 "{}/{} is being written by somebody else",
                                 store_.url(), folder_),
                      ErrorReason::kRunExists);
  }

  // Cleans up after a failed attempt.
  absl::Status Abandon(const ArchiveManifest& written, absl::Status status) {
    if (IsPermanentArchiveError(status)) {
      RemoveOthers(store_, folder_, written, info_.spec.name);
    }
    return status;
  }

  absl::StatusOr<std::string> Encode(const ArchiveManifest& manifest) const {
    std::string bytes = EncodeManifest(manifest);
    if (bytes.size() <= kManifestBytesMax) return bytes;
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "the manifest of the archive would have {} bytes, of at "
                      "most {}",
                      bytes.size(), kManifestBytesMax);
  }

  std::string ManifestKey() const {
    return fmt::format("{}/{}", folder_, kManifestName);
  }

  // Returns the store in the form that a reader needs; it outlives this object.
  std::shared_ptr<ObjectStore> SharedStore() {
    return {std::shared_ptr<void>(), &store_};
  }

  // Adds the bytes sent earlier to the progress of the current step.
  std::function<absl::Status(const ArchiveProgress&)> Forward() {
    return [this](const ArchiveProgress& progress) {
      last_ = progress;
      last_.sent_bytes += sent_bytes_;
      last_.verified_bytes += verified_bytes_;
      return progress_(last_);
    };
  }

  const ArchiveRequest& request_;
  ObjectStore& store_;
  const RunInfo info_;
  const std::string folder_;
  const ArchiveProgressCall progress_;
  ArchiveProgress last_;
  PackedRun packed_;  // Result of the last call of Pack.
  // Bytes of completed steps.
  uint64_t sent_bytes_ = 0;
  uint64_t verified_bytes_ = 0;
  uint64_t missing_count_ = 0;  // See UnreadableItems.
  bool is_overtaken_ = false;
};

}  // namespace

absl::Status CheckArchivedObjects(ObjectStore& store,
                                  const ArchiveManifest& manifest,
                                  StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const std::string folder,
                         RunFolder(manifest.run.spec.name));
  for (const ArchiveObject& object : manifest.Objects()) {
    MSITD_RETURN_IF_ERROR(stop());
    const std::string key = folder + "/" + object.name;
    const absl::StatusOr<ObjectStat> stat = store.Stat(key);
    if (!stat.ok() && !absl::IsNotFound(stat.status())) return stat.status();
    if (stat.ok() && stat->bytes == object.bytes) continue;
    return OfArchive(
        MakeStatus(absl::StatusCode::kUnavailable,
                   "{}/{} was removed while the run was archived; archive the "
                   "run again",
                   store.url(), key),
        store.url());
  }
  return absl::OkStatus();
}

absl::StatusOr<ArchiveManifest> WriteArchive(const ArchiveRequest& request,
                                             ArchiveProgressCall progress) {
  MSITD_ASSIGN_OR_RETURN(RunInfo info, request.run->GetInfo());
  if (info.spec.restoring) return RunRestoring(info.spec.name);
  if (!info.sealed) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "run '{}' is active: only a sealed run is archived",
                      info.spec.name);
  }
  MSITD_ASSIGN_OR_RETURN(std::string folder, RunFolder(info.spec.name));
  return ArchiveWriter(request, std::move(info), std::move(folder), progress)
      .Write();
}

}  // namespace msitd::storage
