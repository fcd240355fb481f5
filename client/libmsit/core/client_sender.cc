// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>
#include <utility>

#include "client/libmsit/core/client.h"
#include "client/libmsit/core/delivery/stream_end.h"
#include "protos/base/error_reason.h"

namespace msitd::libmsit {
namespace {

// Reports are frequent at first, so that the daemon soon receives the
// producer's pace. Each interval is twice as long as the previous one.
constexpr std::chrono::milliseconds kFirstLookInterval{32};
constexpr std::chrono::milliseconds kLookIntervalMax{1000};

// Returns whether another rank has replaced the run with a later recording of
// the launch. In this case the recording of this client is over before it has
// begun.
bool IsTooLate(std::string_view lost_message) {
  return ReasonOfEnd(lost_message) == ErrorReasonName(ErrorReason::kRunExists);
}

}  // namespace

void Client::RunSender() noexcept {
  Lock lock(mu_);
  try {
    Send(lock);
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    EndForGood(std::string("the sender failed: ") + error.what());
  }
  const bool is_memory_free = StopStream(lock);
  state_ = StreamState::kOver;
  DropForGood();
  if (!is_memory_free) {
    pool_.GiveMemory([this](std::span<std::byte> mapping) {
      transport_->KeepMemory(mapping);
    });
  }
  is_sender_over_ = true;
  progress_.notify_all();
  room_.notify_all();
}

// The sender is a loop over the states of the stream. Each iteration handles
// the end of a connection if there was one, otherwise performs one step of
// Advance, otherwise sleeps until WakeTime. Threads that create work, or an
// earlier wake-up time, notify work_.
void Client::Send(Lock& lock) {
  while (true) {
    if (ended_) {
      HandleEnd(lock);
      continue;
    }
    if (must_stop_ && !MustFinishFirst()) return;
    if (Advance(lock)) continue;
    wake_time_ = WakeTime();
    if (wake_time_) {
      work_.wait_until(lock, *wake_time_);
    } else {
      work_.wait(lock);
    }
  }
}

bool Client::MustFinishFirst() const {
  if (Clock::now() >= finish_deadline_) return false;
  return state_ == StreamState::kFinishing ||
         (state_ == StreamState::kStreaming && queue_.empty());
}

bool Client::Advance(Lock& lock) {
  switch (state_) {
    case StreamState::kIdle:
      if (Clock::now() < retry_time_) return false;
      OpenStream(lock);
      return true;
    case StreamState::kOpening:
      if (Clock::now() < answer_deadline_) return false;
      ended_ = Ended{StreamEnd::kLost, "the daemon does not answer"};
      return true;
    case StreamState::kStreaming:
      return AdvanceStream(lock);
    case StreamState::kOver:
      chunker_.Seal();
      DropQueued();
      return false;
    case StreamState::kFinishing:
      break;
  }
  return false;
}

bool Client::AdvanceStream(Lock& lock) {
  if (const auto time = LingerTime(); time && *time <= Clock::now()) {
    chunker_.Seal();
  }
  if (const auto time = ReportTime(); time && *time <= Clock::now()) {
    Report(lock);
    return true;
  }
  if (look_time_ <= Clock::now()) {
    look_interval_ =
        std::clamp(look_interval_ * 2, kFirstLookInterval, kLookIntervalMax);
    look_time_ = Clock::now() + look_interval_;
    if (HasBegunTokens() || !AwaitToken()) {
      Report(lock);
      return true;
    }
  }
  const bool may_send =
      queue_.sent_count() < overflow_.SentMax(pool_.capacity());
  if (Slot* next = may_send ? queue_.PeekNext() : nullptr;
      next && pool_.MoveToShared(next)) {
    const std::span<const std::byte> chunk = queue_.TakeNext()->chunk;
    lock.unlock();
    transport_->Send(chunk);
    lock.lock();
    return true;
  }
  if (must_stop_ && queue_.empty()) {
    state_ = StreamState::kFinishing;
    lock.unlock();
    transport_->Finish();
    lock.lock();
    return true;
  }
  return false;
}

std::optional<Client::Clock::time_point> Client::LingerTime() const {
  const auto since = chunker_.open_since();
  if (!since) return std::nullopt;
  // While half of the memory is waiting for the daemon, sealing partly filled
  // chunks would use up the other half. Open chunks therefore collect records
  // until they are full.
  const size_t waiting_count = pool_.used_count() - chunker_.open_count();
  if ((waiting_count + 1) * 2 > pool_.capacity()) return std::nullopt;
  return *since + options_.linger;
}

void Client::Report(Lock& lock) {
  report_time_ = Clock::now() + options_.report_interval;
  reported_ticks_ = recording_time_.ticks();
  const RecordingTime::Times times = recording_time_.Read();
  StreamCoverage coverage = ledger_.TakeReport();
  coverage.recording_ns = times.recording_ns;
  coverage.open_ns = times.open_ns;
  const int64_t token_end = token_end_.load(std::memory_order_relaxed);
  reported_token_end_ = token_end;
  lock.unlock();
  transport_->ReportCoverage(coverage,
                             token_end == 0 ? 0 : token_end + TokenBase());
  lock.lock();
}

bool Client::HasBegunTokens() const {
  return token_end_.load() > reported_token_end_;
}

// Times that other threads are still counting are not waited for.
bool Client::HasUnreportedTime() const {
  return recording_time_.ticks() != reported_ticks_;
}

// Requests the wake-up first and then checks, like ReportTime.
bool Client::AwaitToken() {
  watches_tokens_.store(true);
  if (HasBegunTokens()) {
    watches_tokens_.store(false);
    return false;
  }
  look_time_ = Clock::time_point::max();
  return true;
}

// If there is nothing to report, requests a notification for the next filtered
// record and then checks again. Otherwise a record between the check and the
// request would be missed.
std::optional<Client::Clock::time_point> Client::ReportTime() {
  const bool is_last = must_stop_ && queue_.empty();
  ledger_.SetFiltered(filter_.filtered_count());
  if (!ledger_.has_unreported() && !(is_last && HasUnreportedTime())) {
    filter_.Watch();
    ledger_.SetFiltered(filter_.filtered_count());
    if (!ledger_.has_unreported()) return std::nullopt;
  }
  return is_last ? Clock::time_point::min() : report_time_;
}

void Client::WakeInTime() {
  if (WakeTime() != wake_time_) work_.notify_one();
}

std::optional<Client::Clock::time_point> Client::WakeTime() {
  switch (state_) {
    case StreamState::kIdle:
      return retry_time_;
    case StreamState::kOpening:
      return answer_deadline_;
    case StreamState::kStreaming: {
      const auto linger = LingerTime();
      const auto report = ReportTime();
      const auto time = std::min({linger.value_or(look_time_),
                                  report.value_or(look_time_), look_time_});
      if (time == Clock::time_point::max()) return std::nullopt;
      return time;
    }
    case StreamState::kFinishing:
      return finish_deadline_;
    case StreamState::kOver:
      break;
  }
  return std::nullopt;
}

void Client::OpenStream(Lock& lock) {
  state_ = StreamState::kOpening;
  policy_revision_.reset();
  told_chunk_version_ = chunk::kExtrasVersion;
  answer_deadline_ = Clock::now() + options_.answer_timeout;
  former_conflict_count_ += std::exchange(conflict_count_, 0);
  // A stream that reconnects must not create or replace its run again. Its own
  // tensors in the run do not make the opening fail.
  const bool appends = options_.if_exists == IfExists::kAppend;
  const IfExists if_exists =
      was_open_ && !appends ? IfExists::kFail : options_.if_exists;
  const std::string_view run = run_;
  lock.unlock();
  transport_->Open({.run = run,
                    .rank = options_.rank,
                    .world_size = options_.world_size,
                    .stream_id = stream_id_,
                    .user_agent = options_.user_agent,
                    .if_exists = if_exists,
                    .job = job_,
                    .buffer_bytes = buffer_bytes_},
                   this);
  lock.lock();
}

bool Client::StopStream(Lock& lock) {
  lock.unlock();
  const bool is_free = transport_->Stop();
  lock.lock();
  ended_.reset();
  return is_free;
}

void Client::HandleEnd(Lock& lock) {
  const bool was_streaming = state_ == StreamState::kStreaming;
  const Ended ended = *ended_;
  // The transport may report events until StopStream returns; `ended_` makes
  // the listener ignore them.
  StopStream(lock);
  switch (ended.end) {
    case StreamEnd::kFinished:
      if (state_ == StreamState::kFinishing) {
        state_ = StreamState::kOver;
        must_stop_ = true;
        return;
      }
      return RetryLater("the daemon ended the stream");
    case StreamEnd::kLost:
      if (!was_open_ && IsTooLate(ended.message)) {
        CountRecording(recorded_rank_, recording_);
      }
      return RetryLater(ended.message);
    case StreamEnd::kChunkRefused:
      if (Slot* slot = was_streaming ? queue_.PopRefused() : nullptr) {
        ++refused_chunk_count_;
        overflow_.OnProgress();
        Drop(slot);
        RetryLater(ended.message);
        retry_time_ = Clock::now();
        return;
      }
      return EndForGood(ended.message);
    case StreamEnd::kRefused:
      return EndForGood(ended.message);
  }
}

void Client::RetryLater(std::string message) {
  state_ = StreamState::kIdle;
  stream_error_ = std::move(message);
  // Spread over 3/4 to 5/4 of the time, so that ranks that lost their daemon do
  // not all reconnect at the same time.
  retry_time_ = Clock::now() + backoff_ * (384 + stream_id_ % 256) / 512;
  backoff_ = std::min(backoff_ * 2, options_.backoff_max);
}

void Client::EndForGood(std::string message) {
  state_ = StreamState::kOver;
  was_refused_ = true;
  stream_error_ = std::move(message);
  // Later records are refused instead of filtered.
  filter_.Stop();
  chunker_.Seal();
  DropQueued();
  room_.notify_all();
  progress_.notify_all();
}

void Client::Drop(Slot* slot) {
  ledger_.DropChunk(slot->contents);
  // The chunk may contain originals.
  aliases_.Clear();
  pool_.Release(slot);
  room_.notify_all();
  progress_.notify_all();
}

void Client::DropQueued() {
  while (queue_.front() != nullptr && queue_.front()->writer_count == 0) {
    Drop(queue_.PopFront());
  }
}

void Client::DropForGood() {
  chunker_.Seal();
  while (Slot* slot = queue_.PopFront()) {
    if (slot->writer_count == 0) {
      Drop(slot);
    } else {
      ledger_.DropChunk(slot->contents);
      slot->draft().End();
    }
  }
}

void Client::OnSharedMemory(std::span<std::byte> memory) {
  const Lock lock(mu_);
  // Seal open chunks now and move them later, because only the shared memory
  // outlives this process.
  chunker_.Seal();
  pool_.Share(memory);
  shared_memory_ = memory;
}

void Client::OnCapturePolicy(std::string_view bytes) {
  capture::Policies policies;
  const bool is_sound = capture::Decode(bytes, policies);
  const Lock lock(mu_);
  if (ended_) return;
  if (!is_sound) {
    ended_ =
        Ended{StreamEnd::kRefused, "the daemon sent an invalid capture policy"};
    work_.notify_one();
    return;
  }
  // Only the newest policy of this connection is used. Another daemon may count
  // revisions from the start.
  const uint64_t revision = policies.back().revision;
  if (policy_revision_ && revision <= *policy_revision_) return;
  policy_revision_ = revision;
  filter_.Set(std::make_unique<const capture::Schedule>(std::move(policies),
                                                        options_.rank));
}

void Client::OnRun(std::string_view run) {
  const Lock lock(mu_);
  if (ended_ || was_open_) return;
  run_ = run;
  chunker_.SetRun(run_);
}

void Client::OnChunkVersion(uint32_t version) {
  const Lock lock(mu_);
  if (!ended_) told_chunk_version_ = version;
}

void Client::OnFirstToken(uint64_t token) {
  const Lock lock(mu_);
  if (ended_ || was_open_ || token > uint64_t{kTokenMax}) return;
  const auto base = static_cast<int64_t>(token);
  int64_t unknown = kBaseUnknown;
  if (!token_base_.compare_exchange_strong(unknown, base)) return;
  // Nothing has been sent yet, because the stream is not open.
  chunker_.SetTokenBase(base);
}

void Client::OnConflicts(uint64_t conflict_count) {
  const Lock lock(mu_);
  if (!ended_) conflict_count_ = conflict_count;
}

void Client::OnCommitted(uint64_t committed_count) {
  const Lock lock(mu_);
  if (ended_) return;
  const bool is_opening = state_ == StreamState::kOpening;
  if (is_opening) {
    state_ = StreamState::kStreaming;
    chunk_version_ = told_chunk_version_;
    takes_digests_ = chunk_version_ >= chunk::VersionFor(chunk::kDigestFlag);
    ledger_.ReportAgain();
    reported_ticks_ = 0;
    report_time_ = Clock::now();
    reported_token_end_ = 0;
    look_time_ = report_time_;
    look_interval_ = {};
    FixTokenBase();
    if (!policy_revision_) filter_.Set(nullptr);
    if (refused_chunk_count_ == 0) stream_error_.clear();
    reconnect_count_ += was_open_ ? 1 : 0;
    if (!was_open_) CountRecording(recorded_rank_, recording_);
    was_open_ = true;
  }
  const bool is_sound = is_opening ? queue_.Reopen(committed_count)
                                   : queue_.SetCommitted(committed_count);
  if (!is_sound) {
    ended_ = Ended{StreamEnd::kRefused,
                   "the daemon acknowledged chunks that were not sent"};
  }
  bool has_room = false;
  while (Slot* slot = queue_.PopCommitted()) {
    ledger_.Acknowledge(slot->contents);
    pool_.Release(slot);
    has_room = true;
  }
  if (has_room) {
    backoff_ = options_.backoff_min;
    overflow_.OnProgress();
  }
  // On a new connection, chunks may become droppable that were not before.
  if (has_room || is_opening) room_.notify_all();
  progress_.notify_all();
  // The sender uses CPU time of the host, so it is woken only if there is work.
  if (is_opening || ended_ || must_stop_ || queue_.has_unsent()) {
    work_.notify_one();
  } else {
    WakeInTime();
  }
}

void Client::OnEnd(StreamEnd end, std::string_view message) {
  const Lock lock(mu_);
  if (ended_) return;
  ended_ = Ended{end, std::string(message)};
  work_.notify_one();
}

}  // namespace msitd::libmsit
