// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "daemon/ingest/chunk_path.h"
#include "daemon/log/log.h"
#include "protos/base/check.h"
#include "protos/compute/digest_memory.h"
#include "protos/status/status.h"

// The threads of the chunk path.
//
// Group commit works as follows. A digest thread finishes a chunk and, if the
// chunk is the next in order, touches its stream. The commit thread works in
// rounds. It waits for a touched stream, then for more chunks until the oldest
// ready chunk is as old as the commit interval, unless a thread is waiting for
// the commit. It collects the ready chunks of the touched streams, in order, up
// to commit_bytes_max, and writes them with one Append, which is one sync. Then
// it returns the memory and notifies the peers. Chunks become ready during the
// sync, so groups grow with the load even without an interval.
namespace msitd::ingest {
namespace {

using Code = absl::StatusCode;

// `owner` is the number of the stream. Returns how many digests supplied by the
// producer are false.
size_t DigestRecords(chunk::Chunk& chunk, uint64_t owner,
                     compute::DigestMemory& memory) {
  size_t false_count = 0;
  for (chunk::RecordDescriptor& record : chunk.records()) {
    const chunk::RecordExtra extra = chunk.ExtraOf(record);
    // The store resolves aliases.
    if (extra.is_alias()) continue;
    if (IsTextOnly(chunk::KindOf(record))) {
      record.hash =
          chunk::HashBytes(std::as_bytes(std::span(chunk.Text(extra.value))));
      continue;
    }
    // The bytes are not here, so the claimed digest cannot be checked.
    if (chunk::IsClaimed(record)) continue;
    const Digest digest = memory.DigestPart(
        chunk.PayloadOf(record), static_cast<DType>(record.dtype), owner);
    if (chunk::HasDigest(record) &&
        !HasEqualBits(digest, {record.summary, record.hash})) {
      record.flags |= chunk::kFalseDigestFlag;
      ++false_count;
    }
    record.summary = digest.summary;
    record.hash = digest.hash;
  }
  return false_count;
}

void LogFalseDigests(const StreamSpec& spec, size_t count) {
  static log::Limiter& limiter = *new log::Limiter;
  const auto suppressed = limiter.Admit();
  if (!suppressed.has_value()) return;
  log::Get("ingest")->warn(
      "a rank makes summaries that are not those of the bytes run='{}' rank={} "
      "count={} suppressed={}",
      spec.run, spec.rank, count, *suppressed);
}

// Returns whether the error concerns a run rather than the disk.
bool IsAboutRun(const absl::Status& status) {
  return status.code() == Code::kNotFound ||
         status.code() == Code::kFailedPrecondition;
}

void LogState(StorageState state, std::string_view error) {
  const auto log = log::Get("ingest");
  if (state == StorageState::kOk) {
    log->info("storage takes chunks again");
  } else {
    log->error("storage refuses chunks state={} error='{}'",
               state == StorageState::kFull ? "FULL" : "FAILED", error);
  }
}

StorageState StateOf(const absl::Status& status) {
  if (status.ok()) return StorageState::kOk;
  return status.code() == Code::kResourceExhausted ? StorageState::kFull
                                                   : StorageState::kFailed;
}

// Reports a deleted run to its producer as sealed. For any other reason the
// producer might start again and recreate the run.
absl::Status ForProducer(const absl::Status& status) {
  if (status.code() != Code::kNotFound) return status;
  return WithReason(
      MakeStatus(Code::kFailedPrecondition, "{}", Message(status)),
      ErrorReason::kRunSealed);
}

}  // namespace

void ChunkPath::DigestLoop() {
  while (true) {
    StreamHandle stream;
    PendingChunk* pending = nullptr;
    bool discard = false;
    {
      MutexLock lock(mu_);
      while (to_digest_.empty() && !stop_) digest_ready_.Wait(mu_);
      if (to_digest_.empty()) return;
      std::tie(stream, pending) = std::move(to_digest_.front());
      to_digest_.pop_front();
      discard = stream->discard;
    }
    // No lock is needed: the commit thread does not touch a chunk before it is
    // digested.
    const size_t false_count =
        discard ? 0 : DigestRecords(pending->chunk, stream->number, digests_);
    if (false_count > 0) LogFalseDigests(stream->spec, false_count);
    MutexLock lock(mu_);
    pending->digested = true;
    if (ready_bytes_ == 0) ready_since_ = std::chrono::steady_clock::now();
    ready_bytes_ += pending->bytes;
    if (stream->end.has_value() || stream->awaits_room) hurry_ = true;
    if (stream->pending.front().get() == pending) TouchLocked(stream);
  }
}

void ChunkPath::CommitLoop() {
  while (true) {
    Round round;
    {
      MutexLock lock(mu_);
      bool is_probe = false;
      if (!AwaitRound(is_probe)) return;
      round = GatherLocked();
      round.is_probe = is_probe;
    }
    if (round.is_probe) {
      ProbeStorage();
      continue;
    }
    // Reports are passed on before the Append, so that threads that wait for a
    // report do not also wait for the Append.
    PassOnReports(std::exchange(round.reports, {}));
    AppendRound(round);
    Conclude(round);
  }
}

bool ChunkPath::AwaitRound(bool& probe) {
  const auto probe_due =
      std::chrono::steady_clock::now() + options_.probe_interval;
  while (touched_.empty()) {
    if (stop_) return false;
    if (stats_.storage_state == StorageState::kOk) {
      commit_ready_.Wait(mu_);
    } else if (!commit_ready_.WaitUntil(mu_, probe_due)) {
      probe = touched_.empty() && !stop_;
      if (probe) return true;
    }
  }
  const auto due = ready_since_ + options_.commit_interval;
  while (!hurry_ && ready_bytes_ > 0 &&
         ready_bytes_ < options_.commit_bytes_max &&
         std::chrono::steady_clock::now() < due) {
    commit_ready_.WaitUntil(mu_, due);
  }
  hurry_ = false;
  return true;
}

void ChunkPath::ProbeStorage() {
  const absl::Status status = log_.Probe();
  const StorageState state = StateOf(status);
  StorageState before = StorageState::kOk;
  {
    MutexLock lock(mu_);
    before = std::exchange(stats_.storage_state, state);
    stats_.storage_error = Message(status);
  }
  // How long the commit thread may sleep depends on the state.
  commit_ready_.NotifyOne();
  if (state != before) LogState(state, Message(status));
}

ChunkPath::Round ChunkPath::GatherLocked() {
  Round round;
  uint64_t bytes = 0;
  while (!touched_.empty() && bytes < options_.commit_bytes_max) {
    StreamHandle stream = std::move(touched_.front());
    touched_.pop_front();
    stream->touched = false;
    while (!stream->pending.empty() && stream->pending.front()->digested &&
           bytes < options_.commit_bytes_max) {
      std::unique_ptr<PendingChunk> pending =
          std::move(stream->pending.front());
      stream->pending.pop_front();
      ready_bytes_ -= pending->bytes;
      if (stream->discard) {
        round.discards.push_back({stream, std::move(pending)});
      } else {
        bytes += pending->bytes;
        ++stream->committing_chunks;
        round.commits.push_back({stream, std::move(pending)});
      }
    }
    if (stream->coverage.has_value()) {
      round.reports.push_back({stream, *stream->coverage});
      stream->reporting = true;
      stream->coverage.reset();
    }
    if (!stream->pending.empty() && stream->pending.front()->digested) {
      TouchLocked(stream);
    }
    round.streams.push_back(std::move(stream));
  }
  return round;
}

void ChunkPath::Append(std::span<Item* const> items,
                       std::span<absl::Status*> results) {
  std::vector<chunk::Chunk> chunks;
  chunks.reserve(items.size());
  for (Item* item : items) chunks.push_back(std::move(item->pending->chunk));
  const absl::Status status = log_.Append(chunks);
  for (absl::Status* result : results) *result = status;
  // AppendByRun may append the chunks again.
  for (size_t i = 0; i < items.size(); ++i) {
    items[i]->pending->chunk = std::move(chunks[i]);
  }
}

void ChunkPath::AppendRound(Round& round) {
  if (round.commits.empty()) return;
  round.results.resize(round.commits.size());
  std::vector<Item*> items;
  std::vector<absl::Status*> results;
  for (size_t i = 0; i < round.commits.size(); ++i) {
    items.push_back(&round.commits[i]);
    results.push_back(&round.results[i]);
  }
  Append(items, results);
  if (IsAboutRun(round.results.front())) AppendByRun(round);
}

// A single run that is sealed or deleted fails the Append of the whole group.
// Appends each run separately, so that the other runs are not affected.
void ChunkPath::AppendByRun(Round& round) {
  struct RunItems {
    std::vector<Item*> items;
    std::vector<absl::Status*> results;
  };
  std::map<std::string_view, RunItems> parts;
  for (size_t i = 0; i < round.commits.size(); ++i) {
    RunItems& part = parts[round.commits[i].stream->spec.run];
    part.items.push_back(&round.commits[i]);
    part.results.push_back(&round.results[i]);
  }
  for (auto& [run, part] : parts) Append(part.items, part.results);
}

void ChunkPath::PassOnReports(std::vector<Report> reports) {
  if (reports.empty()) return;
  StreamCoverage total;
  for (const Report& report : reports) {
    const StreamSpec& spec = report.stream->spec;
    const absl::StatusOr<StreamCoverage> added = log_.ReportCoverage(
        spec.run, spec.rank, spec.stream_id, report.coverage);
    // If the disk failed, nothing is lost: reports are totals, so the next
    // report includes this one.
    if (added.ok()) total = Sum(total, *added);
  }
  {
    MutexLock lock(mu_);
    stats_.coverage = Sum(stats_.coverage, total);
    for (const Report& report : reports) report.stream->reporting = false;
  }
  gone_.NotifyAll();
}

void ChunkPath::SettleLocked(Round& round) {
  const auto settle = [](Item& item) {
    --item.stream->in_flight_chunks;
    item.stream->in_flight_bytes -= item.pending->bytes;
  };
  for (Item& item : round.discards) settle(item);
  const auto now = std::chrono::steady_clock::now();
  for (size_t i = 0; i < round.commits.size(); ++i) {
    Item& item = round.commits[i];
    const absl::Status& status = round.results[i];
    settle(item);
    --item.stream->committing_chunks;
    if (!IsAboutRun(status)) {
      stats_.storage_state = StateOf(status);
      stats_.storage_error = Message(status);
    }
    if (status.ok()) {
      ++item.stream->committed_count;
      ++item.stream->opened_chunk_count;
      item.stream->opened_record_count += item.pending->chunk.records().size();
      item.stream->opened_bytes += item.pending->chunk.payload().size();
      acks_.Add(now - item.pending->arrival);
      item.stream->conflict_count += item.pending->chunk.conflict_count();
      item.stream->owes_ack = true;
    } else if (!item.stream->discard) {
      // Overrides an end that was to follow the commit.
      item.stream->discard = true;
      item.stream->end = ForProducer(status);
      if (registry_.Contains(*item.stream)) {
        history_.End(item.stream->spec.run, item.stream->spec.rank, false);
      }
    }
  }
}

ChunkPath::Notice ChunkPath::NoticeLocked(const StreamHandle& stream) {
  Notice notice;
  notice.stream = stream;
  if (std::exchange(stream->owes_ack, false)) {
    notice.commit = stream->committed_count;
    notice.conflict_count = stream->conflict_count;
  }
  notice.policy = std::exchange(stream->new_policy, nullptr);
  if (!stream->end.has_value()) {
    notice.resume = stream->awaits_room &&
                    stream->in_flight_bytes < options_.stream_window_bytes;
    if (notice.resume) stream->awaits_room = false;
  } else if (stream->in_flight_chunks == 0 && !stream->coverage.has_value() &&
             !stream->heard_end) {
    stream->heard_end = true;
    registry_.Remove(*stream);
    notice.end = stream->end;
  }
  return notice;
}

void ChunkPath::Conclude(Round& round) {
  // The transport receives its memory back before the commit is reported, so
  // that a producer that waits for each commit finds room.
  for (Item& item : round.commits) item.pending->lease.reset();
  for (Item& item : round.discards) item.pending->lease.reset();

  std::vector<Notice> notices;
  IngestStats before;
  IngestStats after;
  {
    MutexLock lock(mu_);
    before = stats_;
    SettleLocked(round);
    for (const StreamHandle& stream : round.streams) {
      notices.push_back(NoticeLocked(stream));
    }
    after = stats_;
  }
  if (before.storage_state != after.storage_state) {
    LogState(after.storage_state, after.storage_error);
  }
  gone_.NotifyAll();
  for (const Notice& notice : notices) {
    StreamPeer& peer = notice.stream->peer;
    if (notice.commit.has_value()) {
      peer.Commit(*notice.commit, notice.conflict_count);
    }
    if (notice.policy != nullptr) peer.SetCapturePolicy(*notice.policy);
    if (notice.resume) peer.Resume();
    if (notice.end.has_value()) peer.End(*notice.end);
  }
}

}  // namespace msitd::ingest
