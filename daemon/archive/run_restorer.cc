// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/run_restorer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "daemon/archive/comparison_copier.h"
#include "daemon/archive/rank_records.h"
#include "daemon/archive/restore_stream.h"
#include "daemon/log/log.h"
#include "protos/base/attachment_limits.h"
#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/base/stream_id.h"
#include "protos/capture/capture_policy.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_url.h"
#include "storage/batch/entry_batch.h"

namespace msitd::archive {
namespace {

using ProgressCall = absl::FunctionRef<absl::Status(uint64_t, uint64_t)>;

// Maximum number of ranks that have a stream, and the entries of a token, in
// memory.
constexpr size_t kActiveRanksMax = 32;

struct RankSide {
  int32_t rank = 0;
  std::unique_ptr<RankRecords> records;
  std::unique_ptr<RestoreStream> stream;  // Null while the rank rests.
  uint64_t unreadable_count = 0;
  // Records that a stream cannot carry; see RestoreStream::CanAdd.
  uint64_t left_out_count = 0;
};

class Restorer {
 public:
  Restorer(const RestoreRequest& request, storage::RunId run_id,
           storage::RunReader& archived,
           const storage::ArchiveManifest& manifest, storage::LostEntries& lost,
           ProgressCall progress)
      : request_(request),
        run_id_(run_id),
        archived_(archived),
        manifest_(manifest),
        lost_(lost),
        progress_(progress) {
    unreadable_.attachment_count = manifest.unreadable.attachment_count;
  }

  absl::Status Copy() {
    MSITD_RETURN_IF_ERROR(OpenRanks());
    MSITD_RETURN_IF_ERROR(CopyRecords());
    MSITD_RETURN_IF_ERROR(Stop());
    MSITD_RETURN_IF_ERROR(FinishRanks());
    MSITD_RETURN_IF_ERROR(CheckIsThere());
    MSITD_RETURN_IF_ERROR(CopyAttachments());
    MSITD_RETURN_IF_ERROR(CheckIsThere());
    capture::Policies policies;
    if (!manifest_.run.capture_policy.empty() &&
        capture::Decode(manifest_.run.capture_policy, policies)) {
      MSITD_RETURN_IF_ERROR(
          request_.runs
              .SetCapturePolicy(request_.run, manifest_.run.capture_policy)
              .status());
    }
    return request_.pipeline.runs()
        .SealRun(request_.run, access::Daemon())
        .status();
  }

  // Reads both runs and returns their differences.
  absl::StatusOr<std::vector<std::string>> Compare();

  absl::StatusOr<RestoredRun> Finish() {
    RestoredRun out;
    MSITD_ASSIGN_OR_RETURN(out.differences, Compare());
    MSITD_ASSIGN_OR_RETURN(
        CopiedComparisons copied,
        RestoreComparisons({*request_.store, request_.archived_run,
                            request_.run, request_.caller},
                           request_.comparisons, stop_));
    out.comparison_count = copied.count;
    out.left_comparison_count = copied.left_count;
    out.unreadable = unreadable_;
    for (std::string& problem : copied.problems) {
      out.differences.push_back(std::move(problem));
    }
    MSITD_RETURN_IF_ERROR(CheckIsThere());
    MSITD_RETURN_IF_ERROR(request_.runs.EndRestore(request_.run).status());
    return out;
  }

  // Returns OK if the run is the one that this restore created. It may have
  // been deleted, and another run may have taken its name.
  absl::Status CheckIsThere() {
    const auto run = request_.runs.GetRun(request_.run);
    if (run.ok() && run->id == run_id_) return absl::OkStatus();
    return WithReason(
        MakeStatus(absl::StatusCode::kAborted,
                   "run '{}' was deleted while it was restored", request_.run),
        ErrorReason::kRunNotFound);
  }

 private:
  absl::Status Stop() { return progress_(read_count_, manifest_.entry_count); }

  absl::Status OpenRanks() {
    MSITD_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks,
                           archived_.ListRanks());
    spec_.run = request_.run;
    spec_.world_size = manifest_.run.spec.world_size;
    if (spec_.world_size == 0 && !ranks.empty()) {
      spec_.world_size = ranks.back() + 1;
    }
    spec_.job = manifest_.run.spec.job;
    spec_.caller = request_.caller;
    spec_.user_agent = "restore";
    spec_.restored_run = run_id_;
    for (const int32_t rank : ranks) {
      RankSide& side = ranks_[rank];
      side.rank = rank;
      side.records = std::make_unique<RankRecords>(archived_, rank);
      MSITD_ASSIGN_OR_RETURN(const bool has_record, side.records->Next(stop_));
      if (has_record) next_.emplace(side.records->place(), rank);
      side.records->Rest();
    }
    return absl::OkStatus();
  }

  // Gives the rank a stream. If too many ranks have one, the rank that has been
  // inactive longest loses its stream.
  absl::Status Activate(RankSide& side) {
    std::erase(active_, &side);
    if (side.stream == nullptr) {
      if (active_.size() == kActiveRanksMax) {
        RankSide& oldest = *active_.front();
        MSITD_RETURN_IF_ERROR(oldest.stream->Close());
        oldest.stream.reset();
        oldest.records->Rest();
        active_.erase(active_.begin());
      }
      spec_.rank = side.rank;
      spec_.stream_id =
          MakeStreamId(process_, static_cast<uint32_t>(side.rank));
      MSITD_ASSIGN_OR_RETURN(side.stream,
                             RestoreStream::Open(request_.pipeline, spec_));
    }
    active_.push_back(&side);
    return absl::OkStatus();
  }

  // Repeatedly copies the record that was received first among all ranks.
  absl::Status CopyRecords() {
    RankSide* last = nullptr;
    while (!next_.empty()) {
      RankSide& first = ranks_.at(next_.begin()->second);
      next_.erase(next_.begin());
      if (last != &first) {
        // Streams may overtake each other on their way to the disk.
        if (last != nullptr) MSITD_RETURN_IF_ERROR(last->stream->Settle());
        MSITD_RETURN_IF_ERROR(Activate(first));
      }
      last = &first;
      MSITD_RETURN_IF_ERROR(CopyRecord(first));
      MSITD_ASSIGN_OR_RETURN(const bool has_record, first.records->Next(stop_));
      if (has_record) next_.emplace(first.records->place(), first.rank);
    }
    return absl::OkStatus();
  }

  absl::Status CopyRecord(RankSide& side) {
    PartRecord record;
    const storage::PartPlace place = side.records->place();
    absl::Status read = side.records->Read(record, stop_);
    storage::TensorInfo without;
    if (absl::IsDataLoss(read)) damaged_place_ = place;
    // Aliases follow the tensors whose bytes they share, so they too are stored
    // without bytes.
    if (read.ok() && damaged_place_ == place && record.entry != nullptr &&
        record.entry->alias_of.has_value()) {
      read = MakeStatus(absl::StatusCode::kDataLoss,
                        "it shares the bytes of {}, which are damaged",
                        record.entry->alias_of->op);
    }
    if (absl::IsDataLoss(read) && record.entry != nullptr) {
      if (&side != damaged_side_ || record.entry->key != damaged_) {
        damaged_side_ = &side;
        damaged_ = record.entry->key;
        ++side.unreadable_count;
        unreadable_.Add(unreadable_.tensor_count,
                        FormatTensorName(record.entry->key), Message(read));
      }
      // A digest can represent only the bytes of a whole tensor.
      without = *record.entry;
      without.has_bytes = false;
      without.alias_of.reset();
      record.entry = &without;
    } else if (!read.ok()) {
      return read;
    }
    if (RestoreStream::CanAdd(*record.entry)) {
      MSITD_RETURN_IF_ERROR(side.stream->Add(record));
    } else if (record.part == 0) {
      ++side.left_out_count;
    }
    if (record.part == 0) ++read_count_;
    return read_count_ % 256 == 0 ? Stop() : absl::OkStatus();
  }

  absl::Status FinishRanks() {
    std::map<int32_t, StreamCoverage> coverage;
    for (const storage::RankCoverage& known : manifest_.coverage) {
      // Records that the run already had are in none of its streams now.
      StreamCoverage& total = coverage[known.rank];
      total = known.total;
      total.seen_count -=
          std::min(total.seen_count, known.repeats.repeated_count);
      total = Sum(total, {.dropped_count = known.repeats.dangling_count});
    }
    const auto token_end =
        std::clamp<int64_t>(manifest_.run.counters.token_end, 0, kTokenMax);
    for (auto& [rank, side] : ranks_) {
      MSITD_RETURN_IF_ERROR(Stop());
      MSITD_RETURN_IF_ERROR(Activate(side));
      StreamCoverage total = coverage[rank];
      total = Sum(total, {.dropped_count =
                              side.records->lost_count() + side.left_out_count,
                          .truncated_count = side.unreadable_count});
      MSITD_RETURN_IF_ERROR(side.stream->Finish(total, token_end));
      side.stream.reset();
      std::erase(active_, &side);
    }
    ranks_.clear();
    if (const uint64_t count = lost_.entry_count(); count > 0) {
      unreadable_.Add(unreadable_.tensor_count,
                      fmt::format("{} records", count), Message(lost_.first()));
      unreadable_.tensor_count += count - 1;
    }
    return absl::OkStatus();
  }

  absl::Status CopyAttachments() {
    for (const storage::ArchivedAttachment& one : manifest_.attachments) {
      const absl::StatusOr<std::string> bytes = ReadAttachment(one.object);
      if (absl::IsDataLoss(bytes.status())) {
        unreadable_.Add(unreadable_.attachment_count,
                        fmt::format("attachment {}", one.info.name),
                        Message(bytes.status()));
        continue;
      }
      MSITD_RETURN_IF_ERROR(bytes.status());
      MSITD_ASSIGN_OR_RETURN(
          const auto writer,
          request_.attachments.Begin(
              {request_.run, one.info.name, one.info.media_type, false}));
      MSITD_RETURN_IF_ERROR(writer->Append(*bytes));
      MSITD_RETURN_IF_ERROR(writer->Commit().status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadAttachment(
      const storage::ArchiveObject& object) {
    MSITD_ASSIGN_OR_RETURN(const std::string folder,
                           storage::RunFolder(request_.archived_run));
    const std::string key = folder + "/" + object.name;
    absl::StatusOr<std::string> bytes =
        request_.store->Get(key, kAttachmentBytesMax);
    if (absl::IsNotFound(bytes.status())) {
      return MakeStatus(absl::StatusCode::kDataLoss, "{}",
                        Message(bytes.status()));
    }
    MSITD_RETURN_IF_ERROR(bytes.status());
    if (chunk::HashBytes(std::as_bytes(std::span(*bytes))) == object.hash) {
      return bytes;
    }
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "{}/{} does not match its hash", request_.store->url(),
                      key);
  }

  const RestoreRequest& request_;
  const storage::RunId run_id_;
  storage::RunReader& archived_;
  const storage::ArchiveManifest& manifest_;
  storage::LostEntries& lost_;
  const ProgressCall progress_;
  const std::function<absl::Status()> stop_ = [this] { return Stop(); };
  const uint32_t process_ = std::random_device()() | 1;
  ingest::StreamSpec spec_;
  std::map<int32_t, RankSide> ranks_;
  // Ranks that have a stream, the most recently used one last.
  std::vector<RankSide*> active_;
  // The next record of each rank that has one, ordered by location.
  std::set<std::pair<storage::PartPlace, int32_t>> next_;
  // The most recent unreadable tensor, which may have more parts.
  const RankSide* damaged_side_ = nullptr;
  TensorKey damaged_;
  std::optional<storage::PartPlace> damaged_place_;
  storage::UnreadableItems unreadable_;
  uint64_t read_count_ = 0;
};

absl::StatusOr<std::vector<std::string>> Restorer::Compare() {
  Selector all;
  all.kinds = EveryRecordKind();
  MSITD_ASSIGN_OR_RETURN(const auto restored,
                         request_.readers.OpenRunAsItIs(request_.run));
  MSITD_ASSIGN_OR_RETURN(const auto scan, archived_.Scan(all, ""));
  storage::EntryHasher hasher;
  uint64_t missing_count = 0;
  uint64_t other_count = 0;
  uint64_t sample_count = 0;
  storage::TensorInfo entry;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(entry, stop_));
    if (!found) break;
    const auto there = restored->GetTensor(entry.key);
    if (absl::IsNotFound(there.status())) {
      ++missing_count;
      continue;
    }
    if (!there.ok()) return there.status();
    if (entry.has_sample && !entry.has_bytes) {
      ++sample_count;
    } else if (hasher.Hash(entry) != hasher.Hash(*there)) {
      ++other_count;
    }
  }
  std::vector<std::string> out;
  if (missing_count > 0) {
    out.push_back(
        fmt::format("{} tensors of several parts without all bytes are missing",
                    missing_count));
  }
  if (sample_count > 0) {
    out.push_back(
        fmt::format("{} tensors have no sample any more", sample_count));
  }
  if (const absl::Status damage = lost_.directory_damage(); !damage.ok()) {
    out.push_back(fmt::format(
        "the directory of the archive was rebuilt from its entries: {}",
        Message(damage)));
  }
  if (unreadable_.tensor_count > 0) {
    out.push_back(fmt::format(
        "{} records are damaged in the archive, or were when it was made: they "
        "have no bytes, or are missing",
        unreadable_.tensor_count));
  }
  if (unreadable_.attachment_count > 0) {
    out.push_back(fmt::format("{} attachments are missing",
                              unreadable_.attachment_count));
  }
  const std::string& policy = manifest_.run.capture_policy;
  if (capture::Policies policies;
      !policy.empty() && !capture::Decode(policy, policies)) {
    out.push_back("its capture policy is not one, and is left out");
  }
  if (other_count > 0) {
    out.push_back(fmt::format(
        "{} records differ: without their bytes, a summary counts as the word "
        "of the producer",
        other_count));
  }
  return out;
}

// Deletes the incomplete run that a failed restore has left.
absl::Status RemoveRest(const RestoreRequest& request) {
  const auto there = request.runs.GetRun(request.run);
  if (!there.ok() || !there->spec.restoring) return absl::OkStatus();
  return request.pipeline.runs().DeleteRun(request.run, request.caller);
}

}  // namespace

void RemoveBrokenRestores(storage::Runs& runs,
                          ingest::IngestPipeline& pipeline) {
  constexpr size_t kRunsAtOnce = 256;
  std::string after;
  while (true) {
    const auto found = runs.ListRuns(after, kRunsAtOnce);
    if (!found.ok() || found->empty()) return;
    after = found->back().spec.name;
    for (const storage::RunInfo& run : *found) {
      if (!run.spec.restoring) continue;
      const absl::Status status = pipeline.runs().DeleteRun(run.spec.name);
      log::Get("archive")->warn(
          "removed run={} reason='the daemon ended while it restored it'{}",
          run.spec.name,
          status.ok() ? "" : fmt::format(" error='{}'", Message(status)));
    }
  }
}

absl::StatusOr<RestoredRun> RestoreRun(const RestoreRequest& request,
                                       ProgressCall progress) {
  MSITD_ASSIGN_OR_RETURN(
      const storage::ArchiveManifest manifest,
      storage::ReadManifest(*request.store, request.archived_run));
  storage::LostEntries lost;
  MSITD_ASSIGN_OR_RETURN(
      const auto archived,
      storage::OpenArchivedRun(request.store, request.archived_run, &lost));
  storage::RunSpec spec = manifest.run.spec;
  spec.name = request.run;
  spec.owner = request.caller.name;
  spec.is_for_admin = request.caller.role == access::Role::kAdmin;
  // The first stream sets both fields, as for every new run.
  spec.job.clear();
  spec.restoring = true;
  MSITD_RETURN_IF_ERROR(RemoveRest(request));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo made,
                         request.runs.CreateRun(spec));
  Restorer restorer(request, made.id, *archived, manifest, lost, progress);
  absl::Status status = restorer.Copy();
  if (status.ok()) {
    auto restored = restorer.Finish();
    if (restored.ok()) return restored;
    status = restored.status();
  }
  if (!restorer.CheckIsThere().ok()) return status;
  const absl::Status deleted =
      request.pipeline.runs().DeleteRun(request.run, access::Daemon());
  if (!deleted.ok()) {
    return Annotate(status, fmt::format("run '{}' stays, half restored, until "
                                        "the daemon starts again",
                                        request.run));
  }
  return status;
}

}  // namespace msitd::archive
