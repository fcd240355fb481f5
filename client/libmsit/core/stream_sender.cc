// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/stream_sender.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "client/libmsit/core/delivery/stream_end.h"
#include "client/libmsit/core/signals_blocked.h"
#include "protos/base/error_reason.h"
#include "protos/base/limits.h"
#include "protos/capture/capture_policy.h"
#include "protos/os/thread.h"

namespace msitd::libmsit {
namespace {

// Condition variables may convert a time to the system clock, where the maximum
// time would overflow. So a wait without a deadline has this one.
constexpr std::chrono::hours kFarAway{1};

// Returns whether another rank has replaced the run with a later recording of
// the launch. In this case the recording of this client is over before it has
// begun.
bool IsTooLate(std::string_view lost_message) {
  return ReasonOfEnd(lost_message) == ErrorReasonName(ErrorReason::kRunExists);
}

}  // namespace

StreamSender::StreamSender(const ClientOptions& options, const Stream& stream,
                           OutgoingChunks& chunks, StreamTokens& tokens,
                           RecordFilter& filter,
                           const RecordingTime& recording_time,
                           Transport& transport)
    : options_(options),
      stream_(stream),
      recorded_rank_{.endpoint = options.endpoint,
                     .launch = options.job.empty()
                                   ? LaunchOf(options.world_size)
                                   : options.job,
                     .run = options.run,
                     .rank = options.rank},
      recording_(NextRecording(recorded_rank_)),
      job_(JobOf(recorded_rank_.launch, recording_)),
      chunks_(chunks),
      tokens_(tokens),
      filter_(filter),
      transport_(transport),
      status_{.run = options.run},
      reports_(options.report_interval, chunks.ledger(), filter, recording_time,
               tokens),
      backoff_(options.backoff_min) {}

void StreamSender::Start() {
  const SignalsBlocked blocked;
  thread_ = StartThread("msit-sender", [this] { Run(); });
}

bool StreamSender::Stop(Clock::time_point deadline, InterruptibleWait& wait,
                        Lock& lock) {
  must_stop_ = true;
  finish_deadline_ = deadline;
  chunks_.work().notify_one();
  bool was_interrupted = false;
  while (thread_.joinable() && !status_.has_ended && !was_interrupted) {
    // The sender stops by itself at the deadline.
    was_interrupted =
        wait.Until(chunks_.progress(), Clock::now() + kFarAway, lock) ==
        InterruptibleWait::Result::kInterrupted;
  }
  finish_deadline_ = Clock::now();
  chunks_.work().notify_one();
  lock.unlock();
  if (thread_.joinable()) thread_.join();
  lock.lock();
  return !was_interrupted;
}

void StreamSender::Begin(int64_t token) {
  const auto awaited = tokens_.Begin(token);
  if (!awaited) return;
  const Lock lock(chunks_.mu());
  reports_.OnAwaited(*awaited);
  chunks_.work().notify_one();
}

void StreamSender::Run() noexcept {
  Lock lock(chunks_.mu());
  try {
    Send(lock);
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    EndForGood(std::string("the sender failed: ") + error.what());
  }
  const bool is_memory_free = StopStream(lock);
  state_ = State::kOver;
  chunks_.DropForGood();
  if (!is_memory_free) {
    chunks_.GiveMemory([this](std::span<std::byte> mapping) {
      transport_.KeepMemory(mapping);
    });
  }
  status_.has_ended = true;
  chunks_.progress().notify_all();
  chunks_.room().notify_all();
}

// The sender is a loop over the states of the stream. Each iteration handles
// the end of a connection if there was one, otherwise performs one step of
// Advance, otherwise sleeps until WakeTime. Threads that create work, or an
// earlier wake-up time, notify chunks_.work().
void StreamSender::Send(Lock& lock) {
  while (true) {
    if (connection_.ended) {
      HandleEnd(lock);
      continue;
    }
    if (must_stop_ && !MustFinishFirst()) return;
    if (Advance(lock)) continue;
    wake_time_ = WakeTime();
    if (wake_time_) {
      chunks_.work().wait_until(lock, *wake_time_);
    } else {
      chunks_.work().wait(lock);
    }
  }
}

bool StreamSender::MustFinishFirst() const {
  if (Clock::now() >= finish_deadline_) return false;
  return state_ == State::kFinishing ||
         (state_ == State::kStreaming && chunks_.empty());
}

bool StreamSender::Advance(Lock& lock) {
  switch (state_) {
    case State::kIdle:
      if (Clock::now() < retry_time_) return false;
      OpenStream(lock);
      return true;
    case State::kOpening:
      if (Clock::now() < connection_.answer_deadline) return false;
      connection_.ended = Ended{StreamEnd::kLost, "the daemon does not answer"};
      return true;
    case State::kStreaming:
      return AdvanceStream(lock);
    case State::kOver:
      chunks_.Seal();
      chunks_.DropQueued();
      return false;
    case State::kFinishing:
      break;
  }
  return false;
}

bool StreamSender::AdvanceStream(Lock& lock) {
  if (const auto time = chunks_.LingerTime(options_.linger);
      time && *time <= Clock::now()) {
    chunks_.Seal();
  }
  const auto report_time = ReportTime();
  if ((report_time && *report_time <= Clock::now()) || reports_.PollTokens()) {
    Report(lock);
    return true;
  }
  if (const auto chunk = chunks_.TakeNext(); !chunk.empty()) {
    lock.unlock();
    transport_.Send(chunk);
    lock.lock();
    return true;
  }
  if (must_stop_ && chunks_.empty()) {
    state_ = State::kFinishing;
    lock.unlock();
    transport_.Finish();
    lock.lock();
    return true;
  }
  return false;
}

void StreamSender::Report(Lock& lock) {
  const ReportSchedule::Report report = reports_.TakeReport();
  lock.unlock();
  transport_.ReportCoverage(report.coverage, report.token_end);
  lock.lock();
}

void StreamSender::WakeInTime() {
  if (WakeTime() != wake_time_) chunks_.work().notify_one();
}

std::optional<StreamSender::Clock::time_point> StreamSender::WakeTime() {
  switch (state_) {
    case State::kIdle:
      return retry_time_;
    case State::kOpening:
      return connection_.answer_deadline;
    case State::kStreaming: {
      const auto linger = chunks_.LingerTime(options_.linger);
      const auto report = ReportTime();
      const auto poll = reports_.poll_time();
      const auto time =
          std::min({linger.value_or(poll), report.value_or(poll), poll});
      if (time == Clock::time_point::max()) return std::nullopt;
      return time;
    }
    case State::kFinishing:
      return finish_deadline_;
    case State::kOver:
      break;
  }
  return std::nullopt;
}

void StreamSender::OpenStream(Lock& lock) {
  state_ = State::kOpening;
  former_conflict_count_ += connection_.conflict_count;
  connection_ = {.answer_deadline = Clock::now() + options_.answer_timeout};
  // A stream that reconnects must not create or replace its run again. Its own
  // tensors in the run do not make the opening fail.
  const bool appends = options_.if_exists == IfExists::kAppend;
  const IfExists if_exists =
      status_.was_open && !appends ? IfExists::kFail : options_.if_exists;
  const std::string_view run = status_.run;
  lock.unlock();
  transport_.Open({.run = run,
                   .rank = options_.rank,
                   .world_size = options_.world_size,
                   .stream_id = stream_.stream_id,
                   .user_agent = options_.user_agent,
                   .if_exists = if_exists,
                   .job = job_,
                   .buffer_bytes = stream_.buffer_bytes},
                  this);
  lock.lock();
}

bool StreamSender::StopStream(Lock& lock) {
  lock.unlock();
  const bool is_free = transport_.Stop();
  lock.lock();
  connection_.ended.reset();
  return is_free;
}

void StreamSender::HandleEnd(Lock& lock) {
  const bool was_streaming = state_ == State::kStreaming;
  const Ended ended = *connection_.ended;
  // The transport may report events until StopStream returns; `ended` makes
  // the listener ignore them.
  StopStream(lock);
  switch (ended.end) {
    case StreamEnd::kFinished:
      if (state_ == State::kFinishing) {
        state_ = State::kOver;
        must_stop_ = true;
        return;
      }
      return RetryLater("the daemon ended the stream");
    case StreamEnd::kLost:
      if (!status_.was_open && IsTooLate(ended.message)) {
        CountRecording(recorded_rank_, recording_);
      }
      return RetryLater(ended.message);
    case StreamEnd::kChunkRefused:
      if (was_streaming && chunks_.DropRefused()) {
        ++status_.refused_chunk_count;
        RetryLater(ended.message);
        retry_time_ = Clock::now();
        return;
      }
      return EndForGood(ended.message);
    case StreamEnd::kRefused:
      return EndForGood(ended.message);
  }
}

void StreamSender::RetryLater(std::string message) {
  state_ = State::kIdle;
  status_.error = std::move(message);
  // Spread over 3/4 to 5/4 of the time, so that ranks that lost their daemon do
  // not all reconnect at the same time.
  retry_time_ = Clock::now() + backoff_ * (384 + stream_.stream_id % 256) / 512;
  backoff_ = std::min(backoff_ * 2, options_.backoff_max);
}

void StreamSender::EndForGood(std::string message) {
  state_ = State::kOver;
  status_.was_refused = true;
  status_.error = std::move(message);
  // Later records are refused instead of filtered.
  filter_.Stop();
  chunks_.Seal();
  chunks_.DropQueued();
  chunks_.room().notify_all();
  chunks_.progress().notify_all();
}

void StreamSender::OnSharedMemory(std::span<std::byte> memory) {
  const Lock lock(chunks_.mu());
  chunks_.Share(memory);
}

void StreamSender::OnCapturePolicy(std::string_view bytes) {
  capture::Policies policies;
  const bool is_sound = capture::Decode(bytes, policies);
  const Lock lock(chunks_.mu());
  if (connection_.ended) return;
  if (!is_sound) {
    connection_.ended =
        Ended{StreamEnd::kRefused, "the daemon sent an invalid capture policy"};
    chunks_.work().notify_one();
    return;
  }
  // Only the newest policy of this connection is used. Another daemon may count
  // revisions from the start.
  const uint64_t revision = policies.back().revision;
  if (connection_.policy_revision && revision <= *connection_.policy_revision)
    return;
  connection_.policy_revision = revision;
  filter_.Set(std::make_unique<const capture::Schedule>(std::move(policies),
                                                        options_.rank));
}

void StreamSender::OnRun(std::string_view run) {
  const Lock lock(chunks_.mu());
  if (connection_.ended || status_.was_open) return;
  status_.run = run;
  chunks_.SetRun(status_.run);
}

void StreamSender::OnChunkVersion(uint32_t version) {
  const Lock lock(chunks_.mu());
  if (!connection_.ended) connection_.chunk_version = version;
}

void StreamSender::OnFirstToken(uint64_t token) {
  const Lock lock(chunks_.mu());
  if (connection_.ended || status_.was_open || token > uint64_t{kTokenMax})
    return;
  const auto base = static_cast<int64_t>(token);
  // Nothing has been sent yet, because the stream is not open.
  if (tokens_.SetBase(base)) chunks_.SetTokenBase(base);
}

void StreamSender::OnConflicts(uint64_t conflict_count) {
  const Lock lock(chunks_.mu());
  if (!connection_.ended) connection_.conflict_count = conflict_count;
}

void StreamSender::OnCommitted(uint64_t committed_count) {
  const Lock lock(chunks_.mu());
  if (connection_.ended) return;
  const bool is_opening = state_ == State::kOpening;
  if (is_opening) BeginStreaming();
  const bool is_sound = is_opening ? chunks_.Reopen(committed_count)
                                   : chunks_.SetCommitted(committed_count);
  if (!is_sound) {
    connection_.ended =
        Ended{StreamEnd::kRefused,
              "the daemon acknowledged chunks that were not sent"};
  }
  const bool has_room = chunks_.ReleaseCommitted();
  if (has_room) backoff_ = options_.backoff_min;
  // On a new connection, chunks may become droppable that were not before.
  if (has_room || is_opening) chunks_.room().notify_all();
  chunks_.progress().notify_all();
  // The sender uses CPU time of the host, so it is woken only if there is work.
  if (is_opening || connection_.ended || must_stop_ || chunks_.has_unsent()) {
    chunks_.work().notify_one();
  } else {
    WakeInTime();
  }
}

void StreamSender::BeginStreaming() {
  state_ = State::kStreaming;
  status_.chunk_version = connection_.chunk_version;
  status_.takes_digests =
      status_.chunk_version >= chunk::VersionFor(chunk::kDigestFlag);
  reports_.Restart();
  tokens_.FixBase();
  if (!connection_.policy_revision) filter_.Set(nullptr);
  if (status_.refused_chunk_count == 0) status_.error.clear();
  status_.reconnect_count += status_.was_open ? 1 : 0;
  if (!status_.was_open) CountRecording(recorded_rank_, recording_);
  status_.was_open = true;
}

void StreamSender::OnEnd(StreamEnd end, std::string_view message) {
  const Lock lock(chunks_.mu());
  if (connection_.ended) return;
  connection_.ended = Ended{end, std::string(message)};
  chunks_.work().notify_one();
}

}  // namespace msitd::libmsit
