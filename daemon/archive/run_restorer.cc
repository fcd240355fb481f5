// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/run_restorer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "daemon/archive/comparison_copier.h"
#include "daemon/archive/rank_records.h"
#include "daemon/archive/restore_stream.h"
#include "daemon/log/log.h"
#include "protos/base/attachment_limits.h"
#include "protos/base/limits.h"
#include "protos/base/stream_id.h"
#include "protos/status/status.h"
#include "storage/archive/archive_reader.h"
#include "storage/archive/archive_url.h"
#include "storage/batch/entry_batch.h"

namespace msitd::archive {
namespace {

using ProgressCall = absl::FunctionRef<absl::Status(uint64_t, uint64_t)>;

struct RankSide {
  std::unique_ptr<RankRecords> records;
  std::unique_ptr<RestoreStream> stream;
  bool has_record = false;
};

class Restorer {
 public:
  Restorer(const RestoreRequest& request, storage::RunId run_id,
           storage::RunReader& archived,
           const storage::ArchiveManifest& manifest, ProgressCall progress)
      : request_(request),
        run_id_(run_id),
        archived_(archived),
        manifest_(manifest),
        progress_(progress) {}

  absl::Status Copy() {
    MSITD_RETURN_IF_ERROR(OpenRanks());
    MSITD_RETURN_IF_ERROR(CopyRecords());
    MSITD_RETURN_IF_ERROR(Stop());
    MSITD_RETURN_IF_ERROR(FinishRanks());
    MSITD_RETURN_IF_ERROR(CheckIsThere());
    MSITD_RETURN_IF_ERROR(CopyAttachments());
    MSITD_RETURN_IF_ERROR(CheckIsThere());
    if (!manifest_.run.capture_policy.empty()) {
      MSITD_RETURN_IF_ERROR(
          request_.runs
              .SetCapturePolicy(request_.run, manifest_.run.capture_policy)
              .status());
    }
    return request_.pipeline.SealRun(request_.run, access::Daemon()).status();
  }

  // Reads both runs and says in what they differ.
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
    for (std::string& problem : copied.problems) {
      out.differences.push_back(std::move(problem));
    }
    MSITD_RETURN_IF_ERROR(CheckIsThere());
    MSITD_RETURN_IF_ERROR(request_.runs.EndRestore(request_.run).status());
    return out;
  }

  // OK if the run is the one that was made here: it may have been deleted, and
  // somebody else have another one of that name.
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
    ingest::StreamSpec spec;
    spec.run = request_.run;
    spec.world_size = manifest_.run.spec.world_size;
    for (const int32_t rank : ranks) {
      if (manifest_.run.spec.world_size == 0) {
        spec.world_size = std::max(spec.world_size, rank + 1);
      }
    }
    spec.job = manifest_.run.spec.job;
    spec.caller = request_.caller;
    spec.user_agent = "restore";
    spec.restored_run = run_id_;
    const uint32_t process = std::random_device()() | 1;
    for (const int32_t rank : ranks) {
      spec.rank = rank;
      spec.stream_id = MakeStreamId(process, static_cast<uint32_t>(rank));
      RankSide& side = ranks_[rank];
      side.records = std::make_unique<RankRecords>(archived_, rank);
      MSITD_ASSIGN_OR_RETURN(side.stream,
                             RestoreStream::Open(request_.pipeline, spec));
      MSITD_ASSIGN_OR_RETURN(side.has_record, side.records->Next(stop_));
    }
    return absl::OkStatus();
  }

  // Takes what was received first of all ranks, again and again.
  absl::Status CopyRecords() {
    RankSide* last = nullptr;
    while (true) {
      RankSide* first = nullptr;
      for (auto& [rank, side] : ranks_) {
        if (side.has_record &&
            (first == nullptr ||
             side.records->place() < first->records->place())) {
          first = &side;
        }
      }
      if (first == nullptr) return absl::OkStatus();
      // Streams overtake each other on their way to the disk.
      if (last != nullptr && last != first) {
        MSITD_RETURN_IF_ERROR(last->stream->Settle());
      }
      last = first;
      MSITD_ASSIGN_OR_RETURN(const PartRecord record, first->records->Read());
      if (RestoreStream::Takes(*record.entry)) {
        MSITD_RETURN_IF_ERROR(first->stream->Add(record));
      }
      if (record.part == 0) ++read_count_;
      if (read_count_ % 256 == 0) MSITD_RETURN_IF_ERROR(Stop());
      MSITD_ASSIGN_OR_RETURN(first->has_record, first->records->Next(stop_));
    }
  }

  absl::Status FinishRanks() {
    for (auto& [rank, side] : ranks_) {
      StreamCoverage coverage;
      for (const storage::RankCoverage& known : manifest_.coverage) {
        if (known.rank == rank) coverage = known.total;
      }
      MSITD_RETURN_IF_ERROR(side.stream->Finish(
          coverage,
          std::clamp<int64_t>(manifest_.run.counters.token_end, 0, kTokenMax)));
    }
    ranks_.clear();
    return absl::OkStatus();
  }

  absl::Status CopyAttachments() {
    MSITD_ASSIGN_OR_RETURN(const std::string folder,
                           storage::RunFolder(request_.archived_run));
    for (const storage::ArchivedAttachment& one : manifest_.attachments) {
      MSITD_ASSIGN_OR_RETURN(const std::string bytes,
                             request_.store->Get(folder + "/" + one.object.name,
                                                 kAttachmentBytesMax));
      MSITD_ASSIGN_OR_RETURN(
          const auto writer,
          request_.attachments.Begin(
              {request_.run, one.info.name, one.info.media_type, false}));
      MSITD_RETURN_IF_ERROR(writer->Append(bytes));
      if (writer->hash() != one.object.hash) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "{}/{}/{} does not match its hash",
                          request_.store->url(), folder, one.object.name);
      }
      MSITD_RETURN_IF_ERROR(writer->Commit().status());
    }
    return absl::OkStatus();
  }

  const RestoreRequest& request_;
  const storage::RunId run_id_;
  storage::RunReader& archived_;
  const storage::ArchiveManifest& manifest_;
  const ProgressCall progress_;
  const std::function<absl::Status()> stop_ = [this] { return Stop(); };
  std::map<int32_t, RankSide> ranks_;
  uint64_t read_count_ = 0;
};

absl::StatusOr<std::vector<std::string>> Restorer::Compare() {
  Selector all;
  for (int kind = 0; kind < kRecordKindCount; ++kind) {
    all.kinds.push_back(static_cast<RecordKind>(kind));
  }
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
        fmt::format("{} tensors of several parts without bytes are missing",
                    missing_count));
  }
  if (sample_count > 0) {
    out.push_back(
        fmt::format("{} tensors have no sample any more", sample_count));
  }
  if (other_count > 0) {
    out.push_back(fmt::format(
        "{} records differ: without their bytes, a summary counts as the word "
        "of the producer",
        other_count));
  }
  return out;
}

// Removes what a restore that failed has left of the run.
absl::Status RemoveRest(const RestoreRequest& request) {
  const auto there = request.runs.GetRun(request.run);
  if (!there.ok() || !there->spec.restoring) return absl::OkStatus();
  return request.pipeline.DeleteRun(request.run, request.caller);
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
      const absl::Status status = pipeline.DeleteRun(run.spec.name);
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
  MSITD_ASSIGN_OR_RETURN(
      const auto archived,
      storage::OpenArchivedRun(request.store, request.archived_run));
  storage::RunSpec spec = manifest.run.spec;
  spec.name = request.run;
  spec.owner = request.caller.name;
  spec.is_for_admin = request.caller.role == access::Role::kAdmin;
  // The first stream sets both, as it does for every new run.
  spec.job.clear();
  spec.restoring = true;
  MSITD_RETURN_IF_ERROR(RemoveRest(request));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo made,
                         request.runs.CreateRun(spec));
  Restorer restorer(request, made.id, *archived, manifest, progress);
  absl::Status status = restorer.Copy();
  if (status.ok()) {
    auto restored = restorer.Finish();
    if (restored.ok()) return restored;
    status = restored.status();
  }
  if (!restorer.CheckIsThere().ok()) return status;
  const absl::Status deleted =
      request.pipeline.DeleteRun(request.run, access::Daemon());
  if (!deleted.ok()) {
    return Annotate(status, fmt::format("run '{}' stays, half restored, until "
                                        "the daemon starts again",
                                        request.run));
  }
  return status;
}

}  // namespace msitd::archive
