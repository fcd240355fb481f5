// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/chunk_path.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "daemon/ingest/ingest_errors.h"
#include "daemon/log/log.h"
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

uint64_t NextStreamNumber() {
  // No other data depends on it.
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
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

ChunkPath::ChunkPath(storage::ChunkLog& log, const IngestOptions& options)
    : log_(log), options_(options), registry_(options.streams_max) {
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

ChunkPath::~ChunkPath() {
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

int64_t ChunkPath::FirstTokenAhead(std::string_view run, int64_t stored_end) {
  const auto now = std::chrono::steady_clock::now();
  int64_t out = stored_end;
  MutexLock lock(mu_);
  for (const StreamHandle& stream : registry_.StreamsOf(run)) {
    out = std::max(out, stream->pace.TokenAhead(now));
  }
  return out;
}

absl::Status ChunkPath::CheckAddress(const IngestStream& stream,
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

ChunkSink::Offered ChunkPath::Offer(const StreamHandle& stream,
                                    std::span<const std::byte> bytes,
                                    std::unique_ptr<Lease> lease) {
  absl::StatusOr<chunk::Chunk> chunk = chunk::Chunk::FromProducer(bytes);
  if (chunk.ok()) return Offer(stream, *std::move(chunk), std::move(lease));
  MutexLock lock(mu_);
  if (!stream->end.has_value()) RefuseLocked(stream, chunk.status());
  return ChunkSink::Offered::kEnded;
}

ChunkSink::Offered ChunkPath::Offer(const StreamHandle& stream,
                                    chunk::Chunk chunk,
                                    std::unique_ptr<Lease> lease) {
  const absl::Status status = CheckAddress(*stream, chunk);
  chunk.header().flags |= stream->spec.shares_memory ? chunk::kSharedMemoryFlag
                                                     : chunk::kOwnMemoryFlag;
  const uint64_t chunk_bytes = chunk.head().size() + chunk.payload().size();

  MutexLock lock(mu_);
  if (stream->end.has_value()) return ChunkSink::Offered::kEnded;
  if (!status.ok()) {
    RefuseLocked(stream, status);
    return ChunkSink::Offered::kEnded;
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
    return ChunkSink::Offered::kEnded;
  }
  if (sequence < stream->next_sequence) {
    stream->owes_ack = true;
    TouchLocked(stream);
    return ChunkSink::Offered::kMore;
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
    return ChunkSink::Offered::kMore;
  }
  stream->awaits_room = true;
  hurry_ = true;
  return ChunkSink::Offered::kWait;
}

void ChunkPath::ReportCoverage(const StreamHandle& stream,
                               const StreamCoverage& coverage,
                               int64_t token_end) {
  MutexLock lock(mu_);
  if (stream->end.has_value()) return;
  stream->coverage = coverage;
  stream->last_coverage = Newer(stream->last_coverage, coverage);
  stream->pace.Report(token_end, std::chrono::steady_clock::now());
  TouchLocked(stream);
}

void ChunkPath::NoteMemory(const StreamHandle& stream,
                           std::shared_ptr<const StreamMemory> memory) {
  MutexLock lock(mu_);
  stream->memory = std::move(memory);
}

void ChunkPath::Finish(const StreamHandle& stream, const absl::Status& status) {
  MutexLock lock(mu_);
  EndLocked(stream, status);
}

void ChunkPath::RefuseLocked(const StreamHandle& stream,
                             const absl::Status& status) {
  ++stats_.refused_chunk_count;
  ++stats_.refused_by_reason[Reason(status)];
  EndLocked(stream, status);
}

void ChunkPath::EndLocked(const StreamHandle& stream,
                          const absl::Status& status) {
  if (stream->end.has_value()) return;
  stream->end = status;
  history_.End(stream->spec.run, stream->spec.rank, status.ok());
  hurry_ = true;
  TouchLocked(stream);
}

void ChunkPath::TouchLocked(const StreamHandle& stream) {
  if (!stream->touched) {
    stream->touched = true;
    touched_.push_back(stream);
  }
  commit_ready_.NotifyOne();
}

bool ChunkPath::TryReleaseLocked(const StreamHandle& stream) {
  const uint64_t awaited =
      stream->discard ? stream->committing_chunks : stream->in_flight_chunks;
  if (awaited > 0 || stream->reporting) return false;
  registry_.Release(*stream);
  return true;
}

void ChunkPath::EndStreamsOf(std::string_view run, std::string_view what,
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

absl::Status ChunkPath::AwaitPredecessor(const StreamSpec& spec) {
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const StreamHandle before,
                           registry_.Predecessor(spec));
    if (before == nullptr) return absl::OkStatus();
    EndLocked(before, absl::AbortedError("the producer has connected again"));
    while (registry_.Contains(*before) && !TryReleaseLocked(before)) {
      gone_.Wait(mu_);
    }
  }
}

absl::StatusOr<access::FairShares::Grant> ChunkPath::MakeWay(
    const StreamSpec& spec) {
  MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(AwaitPredecessor(spec));
  return registry_.AcquireShare(spec.caller);
}

absl::StatusOr<StreamHandle> ChunkPath::Add(StreamSpec spec, StreamPeer& peer,
                                            access::FairShares::Grant share,
                                            uint64_t committed) {
  auto stream =
      std::make_shared<IngestStream>(std::move(spec), peer, NextStreamNumber());
  stream->share = std::move(share);
  MutexLock lock(mu_);
  if (draining_) return NotServing();
  stream->next_sequence = committed;
  stream->committed_count = committed;
  registry_.Add(stream);
  const StreamSpec& is = stream->spec;
  history_.Open(is.run, is.rank, is.stream_id);
  return stream;
}

void ChunkPath::SendPolicy(std::string_view run,
                           std::shared_ptr<const std::string> policy) {
  MutexLock lock(mu_);
  for (const StreamHandle& stream : registry_.StreamsOf(run)) {
    stream->new_policy = policy;
    TouchLocked(stream);
  }
}

std::vector<uint64_t> ChunkPath::OpenStreamsOf(std::string_view run) {
  std::vector<uint64_t> ids;
  MutexLock lock(mu_);
  for (const StreamHandle& stream : registry_.StreamsOf(run)) {
    if (!stream->end.has_value()) ids.push_back(stream->spec.stream_id);
  }
  return ids;
}

std::optional<uint64_t> ChunkPath::LastStreamOf(std::string_view run,
                                                int32_t rank) {
  MutexLock lock(mu_);
  return history_.StreamOf(run, rank);
}

void ChunkPath::ForgetActivity(std::string_view run) {
  MutexLock lock(mu_);
  history_.Forget(run);
}

RunActivity ChunkPath::ActivityOf(std::string_view run) {
  MutexLock lock(mu_);
  return history_.ActivityOf(run);
}

absl::Status ChunkPath::Drain(std::chrono::steady_clock::time_point deadline) {
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

bool ChunkPath::is_draining() {
  MutexLock lock(mu_);
  return draining_;
}

IngestStats ChunkPath::Stats() {
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

std::vector<StreamStats> ChunkPath::Streams(
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
