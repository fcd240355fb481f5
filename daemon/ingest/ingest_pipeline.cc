// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ingest_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/ingest/run_hold.h"
#include "daemon/log/log.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/os/nice.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"
namespace msitd::ingest {
namespace {

using Code = absl::StatusCode;

// A thread without permission keeps its niceness.
void BeNice(int nice) {
  if (const int error = RaiseNice(nice); error != 0) {
    log::Get("ingest")->warn("ingest_nice refused nice={} error='{}'", nice,
                             Message(ErrnoStatus(error, "setpriority")));
  }
}

// Does not fill in the memory that the producer shares.
StreamStats Describe(const IngestStream& stream,
                     std::chrono::steady_clock::time_point now) {
  StreamStats out;
  out.spec = stream.spec;
  out.age = now - stream.open_time;
  out.committed_chunk_count = stream.opened_chunk_count;
  out.committed_record_count = stream.opened_record_count;
  out.committed_bytes = stream.opened_bytes;
  out.in_flight_bytes = stream.in_flight_bytes;
  out.coverage = stream.last_coverage;
  return out;
}

}  // namespace

IngestPipeline::IngestPipeline(storage::Runs& runs, storage::ChunkLog& log,
                               const IngestOptions& options)
    : runs_(runs),
      log_(log),
      options_(options),
      registry_(options.streams_max) {
  for (int i = 0; i < options.digest_threads; ++i) {
    digest_threads_.push_back(StartThread("digest", [this] {
      BeNice(options_.nice);
      DigestLoop();
    }));
  }
  commit_thread_ = StartThread("commit", [this] {
    BeNice(options_.nice);
    CommitLoop();
  });
}

IngestPipeline::~IngestPipeline() {
  (void)Drain(std::chrono::steady_clock::time_point::max());
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  digest_ready_.NotifyAll();
  commit_ready_.NotifyAll();
  for (std::thread& thread : digest_threads_) thread.join();
  commit_thread_.join();
}

int64_t IngestPipeline::FirstTokenAhead(std::string_view run,
                                        int64_t stored_end) {
  const auto now = std::chrono::steady_clock::now();
  int64_t out = stored_end;
  MutexLock lock(mu_);
  for (const StreamHandle& stream : registry_.StreamsOf(run)) {
    out = std::max(out, stream->pace.TokenAhead(now));
  }
  return out;
}

absl::StatusOr<capture::Policy> IngestPipeline::SetCapturePolicy(
    std::string_view run, capture::Policy policy,
    std::optional<int64_t> first_token, const access::Caller& caller) {
  // Use the longest possible numbers, so that a policy that fits here also fits
  // with its final numbers.
  policy.revision = std::numeric_limits<uint64_t>::max();
  policy.first_token = kTokenMax;
  if (capture::Policies alone; !capture::Add(policy, alone)) {
    return WithReason(
        MakeStatus(Code::kInvalidArgument, "the policy is over {} bytes long",
                   capture::kPoliciesBytesMax),
        ErrorReason::kFieldInvalid);
  }
  const RunHold hold(*this, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  StreamSpec spec;
  spec.run = std::string(run);
  spec.caller = caller;
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, CreateOrGetRun(spec));
  if (info.sealed) return RunSealed(run, "is sealed");
  if (info.spec.restoring) return storage::RunRestoring(run);
  capture::Policies policies;
  if (!info.capture_policy.empty() &&
      !capture::Decode(info.capture_policy, policies)) {
    return absl::DataLossError("the capture policy of the run is damaged");
  }
  policy.revision = policies.empty() ? 1 : policies.back().revision + 1;
  policy.first_token = std::min(
      first_token.value_or(FirstTokenAhead(run, info.counters.token_end)),
      kTokenMax);
  MSITD_CHECK(capture::Add(policy, policies));
  auto encoded = std::make_shared<const std::string>(capture::Encode(policies));
  MSITD_RETURN_IF_ERROR(runs_.SetCapturePolicy(run, *encoded).status());
  MutexLock lock(mu_);
  for (const StreamHandle& stream : registry_.StreamsOf(run)) {
    stream->new_policy = encoded;
    TouchLocked(stream);
  }
  return policy;
}

absl::Status IngestPipeline::CheckAddress(const IngestStream& stream,
                                          const chunk::Chunk& chunk) const {
  const chunk::ChunkHeader& header = chunk.header();
  const StreamSpec& spec = stream.spec;
  if (chunk.run() == spec.run && header.rank == spec.rank &&
      header.stream_id == spec.stream_id) {
    return absl::OkStatus();
  }
  return WithReason(
      MakeStatus(Code::kInvalidArgument,
                 "the chunk is for rank {} of run '{}', stream {:#x}; its "
                 "stream is for rank {} of run '{}', stream {:#x}",
                 header.rank, chunk.run(), header.stream_id, spec.rank,
                 spec.run, spec.stream_id),
      ErrorReason::kChunkMisdirected);
}

IngestPipeline::Offered IngestPipeline::Offer(const StreamHandle& stream,
                                              std::span<const std::byte> bytes,
                                              std::unique_ptr<Lease> lease) {
  absl::StatusOr<chunk::Chunk> chunk = chunk::Chunk::FromProducer(bytes);
  if (chunk.ok()) return Offer(stream, *std::move(chunk), std::move(lease));
  MutexLock lock(mu_);
  if (!stream->end.has_value()) RefuseLocked(stream, chunk.status());
  return Offered::kEnded;
}

IngestPipeline::Offered IngestPipeline::Offer(const StreamHandle& stream,
                                              chunk::Chunk chunk,
                                              std::unique_ptr<Lease> lease) {
  const absl::Status status = CheckAddress(*stream, chunk);
  chunk.header().flags |= stream->spec.shares_memory ? chunk::kSharedMemoryFlag
                                                     : chunk::kOwnMemoryFlag;
  const uint64_t chunk_bytes = chunk.head().size() + chunk.payload().size();

  MutexLock lock(mu_);
  if (stream->end.has_value()) return Offered::kEnded;
  if (!status.ok()) {
    RefuseLocked(stream, status);
    return Offered::kEnded;
  }
  const uint64_t sequence = chunk.header().chunk_sequence;
  if (sequence > stream->next_sequence) {
    RefuseLocked(
        stream,
        WithMetadata(
            WithMetadata(
                WithReason(
                    MakeStatus(Code::kOutOfRange,
                               "chunk {} came where chunk {} was expected",
                               sequence, stream->next_sequence),
                    ErrorReason::kChunkOutOfOrder),
                "expected", std::to_string(stream->next_sequence)),
            "received", std::to_string(sequence)));
    return Offered::kEnded;
  }
  if (sequence < stream->next_sequence) {
    stream->owes_ack = true;
    TouchLocked(stream);
    return Offered::kMore;
  }
  history_.NoteChunk(stream->spec.run, stream->spec.rank);
  ++stream->next_sequence;
  ++stream->in_flight_chunks;
  stream->in_flight_bytes += chunk_bytes;
  stream->pending.push_back(std::make_unique<PendingChunk>(
      std::move(chunk), chunk_bytes, std::move(lease)));
  to_digest_.emplace_back(stream, stream->pending.back().get());
  digest_ready_.NotifyOne();
  if (stream->in_flight_bytes < options_.stream_window_bytes) {
    return Offered::kMore;
  }
  stream->awaits_room = true;
  hurry_ = true;
  return Offered::kWait;
}

void IngestPipeline::ReportCoverage(const StreamHandle& stream,
                                    const StreamCoverage& coverage,
                                    int64_t token_end) {
  MutexLock lock(mu_);
  if (stream->end.has_value()) return;
  stream->coverage = coverage;
  stream->last_coverage = Newer(stream->last_coverage, coverage);
  stream->pace.Report(token_end, std::chrono::steady_clock::now());
  TouchLocked(stream);
}

void IngestPipeline::NoteMemory(const StreamHandle& stream,
                                std::shared_ptr<const StreamMemory> memory) {
  MutexLock lock(mu_);
  stream->memory = std::move(memory);
}

void IngestPipeline::Finish(const StreamHandle& stream,
                            const absl::Status& status) {
  MutexLock lock(mu_);
  EndLocked(stream, status);
}

void IngestPipeline::RefuseLocked(const StreamHandle& stream,
                                  const absl::Status& status) {
  ++stats_.refused_chunk_count;
  ++stats_.refused_by_reason[Reason(status)];
  EndLocked(stream, status);
}

void IngestPipeline::EndLocked(const StreamHandle& stream,
                               const absl::Status& status) {
  if (stream->end.has_value()) return;
  stream->end = status;
  history_.End(stream->spec.run, stream->spec.rank, status.ok());
  hurry_ = true;
  TouchLocked(stream);
}

void IngestPipeline::TouchLocked(const StreamHandle& stream) {
  if (!stream->touched) {
    stream->touched = true;
    touched_.push_back(stream);
  }
  commit_ready_.NotifyOne();
}

bool IngestPipeline::TryReleaseLocked(const StreamHandle& stream) {
  const uint64_t awaited =
      stream->discard ? stream->committing_chunks : stream->in_flight_chunks;
  if (awaited > 0 || stream->reporting) return false;
  registry_.Release(*stream);
  return true;
}

void IngestPipeline::EndStreamsOf(std::string_view run, std::string_view what,
                                  bool discards) {
  std::vector<Report> reports;
  {
    MutexLock lock(mu_);
    const std::vector<StreamHandle> streams = registry_.StreamsOf(run);
    for (const StreamHandle& stream : streams) {
      EndLocked(stream, RunSealed(run, what));
      stream->discard |= discards;
    }
    for (const StreamHandle& stream : streams) {
      while (registry_.Contains(*stream) && !TryReleaseLocked(stream)) {
        gone_.Wait(mu_);
      }
      if (stream->coverage.has_value() && !discards) {
        reports.push_back({stream, *stream->coverage});
      }
      stream->coverage.reset();
    }
  }
  PassOnReports(std::move(reports));
}

absl::Status IngestPipeline::CheckHeldRun(std::string_view run,
                                          const access::Caller& caller) {
  const absl::StatusOr<storage::RunInfo> found = runs_.GetRun(run);
  if (absl::IsNotFound(found.status())) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(found.status());
  return access::CheckOwner(caller, found->spec.owner,
                            fmt::format("run '{}'", run));
}

absl::StatusOr<storage::RunInfo> IngestPipeline::SealRun(
    std::string_view run, const access::Caller& caller) {
  const RunHold hold(*this, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  if (caller != access::Daemon()) {
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, runs_.GetRun(run));
    if (info.spec.restoring) return storage::RunRestoring(run);
  }
  EndStreamsOf(run, "was sealed", /*discards=*/false);
  ForgetActivity(run);
  return runs_.SealRun(run);
}

absl::Status IngestPipeline::DeleteRun(std::string_view run,
                                       const access::Caller& caller) {
  const RunHold hold(*this, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  return DeleteHeldRun(run, "was deleted");
}

absl::StatusOr<storage::RunInfo> IngestPipeline::ChangeRetention(
    std::string_view run, const access::Caller& caller,
    absl::FunctionRef<absl::Status(storage::RunRetention&)> change) {
  const RunHold hold(*this, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo found, runs_.GetRun(run));
  storage::RunRetention retention = found.retention;
  MSITD_RETURN_IF_ERROR(change(retention));
  return runs_.SetRetention(run, retention);
}

absl::Status IngestPipeline::ChangeRun(
    std::string_view run, const access::Caller& caller,
    absl::FunctionRef<absl::Status()> change) {
  const RunHold hold(*this, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  return change();
}

absl::Status IngestPipeline::DeleteHeldRun(std::string_view run,
                                           std::string_view what) {
  EndStreamsOf(run, what, /*discards=*/true);
  ForgetActivity(run);
  return runs_.DeleteRun(run);
}

void IngestPipeline::ForgetActivity(std::string_view run) {
  MutexLock lock(mu_);
  history_.Forget(run);
}

RunActivity IngestPipeline::ActivityOf(std::string_view run) {
  MutexLock lock(mu_);
  return history_.ActivityOf(run);
}

absl::Status IngestPipeline::Drain(
    std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mu_);
  draining_ = true;
  for (const StreamHandle& stream : registry_.All()) {
    EndLocked(stream, NotServing());
  }
  while (registry_.size() > 0) {
    if (deadline == std::chrono::steady_clock::time_point::max()) {
      gone_.Wait(mu_);
    } else if (!gone_.WaitUntil(mu_, deadline) && registry_.size() > 0) {
      return MakeStatus(Code::kDeadlineExceeded,
                        "{} streams still have chunks in flight",
                        registry_.size());
    }
  }
  return absl::OkStatus();
}

IngestStats IngestPipeline::Stats() {
  IngestStats stats;
  std::vector<std::shared_ptr<const StreamMemory>> memories;
  {
    MutexLock lock(mu_);
    stats = stats_;
    stats.open_stream_count = registry_.size();
    stats.ready_bytes = ready_bytes_;
    for (const StreamHandle& stream : registry_.All()) {
      stats.in_flight_bytes += stream->in_flight_bytes;
      if (stream->memory != nullptr) memories.push_back(stream->memory);
    }
  }
  // Done without the lock, because producers determine the number of chunks to
  // add up.
  for (const auto& memory : memories) {
    stats.ring_bytes += memory->size_bytes();
    stats.ring_used_bytes += memory->used_bytes();
  }
  return stats;
}

std::vector<StreamStats> IngestPipeline::Streams(
    const std::optional<std::pair<std::string, int32_t>>& after, size_t limit) {
  const auto now = std::chrono::steady_clock::now();
  std::vector<StreamStats> out;
  std::vector<std::shared_ptr<const StreamMemory>> memories;
  {
    MutexLock lock(mu_);
    for (const StreamHandle& stream : registry_.After(after, limit)) {
      out.push_back(Describe(*stream, now));
      memories.push_back(stream->memory);
    }
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (memories[i] == nullptr) continue;
    out[i].ring_bytes = memories[i]->size_bytes();
    out[i].ring_used_bytes = memories[i]->used_bytes();
  }
  return out;
}

}  // namespace msitd::ingest
