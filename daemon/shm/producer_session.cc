// SPDX-License-Identifier: Apache-2.0
#include "daemon/shm/producer_session.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/log/log.h"
#include "protos/base/check.h"
#include "protos/base/utf8.h"
#include "protos/chunk/chunk_format.h"
#include "protos/os/aligned_buffer.h"
#include "protos/shm/sealed_memory.h"
#include "protos/status/status.h"

namespace msitd::shm {
namespace {

using Offered = ingest::ChunkSink::Offered;

// Maximum number of chunks and packets of one producer that are handled before
// other producers have their turn.
constexpr int kChunksPerTurn = 16;
constexpr int kPacketsPerTurn = 16;

// Any producer can open and end streams in a loop.
log::Limiter& Limiter() {
  static log::Limiter& limiter = *new log::Limiter;
  return limiter;
}

// Keeps the arena mapped while the pipeline reads from it.
class ArenaLease final : public ingest::Lease {
 public:
  explicit ArenaLease(std::shared_ptr<RingArena> arena)
      : arena_(std::move(arena)) {}

 private:
  const std::shared_ptr<RingArena> arena_;
};

// The view of a session's memory that is available to other threads.
class SessionMemory final : public ingest::StreamMemory {
 public:
  explicit SessionMemory(std::shared_ptr<const RingReader> ring)
      : ring_(std::move(ring)) {}

  uint64_t size_bytes() const override {
    return ring_->arena()->bytes().size();
  }
  uint64_t used_bytes() const override { return ring_->UsedBytes(); }

 private:
  const std::shared_ptr<const RingReader> ring_;
};

absl::Status PacketInvalid(std::string_view what) {
  return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument, "{}", what),
                    ErrorReason::kFieldInvalid);
}

SessionEnd ToMessage(const absl::Status& status) {
  SessionEnd end;
  end.code = static_cast<int32_t>(status.code());
  const std::string reason = Reason(status);
  end.reason_bytes = static_cast<uint32_t>(
      std::min<size_t>(reason.size(), sizeof(end.reason)));
  std::memcpy(end.reason, reason.data(), end.reason_bytes);
  const std::string_view message = Message(status);
  end.message_bytes = static_cast<uint32_t>(
      std::min<size_t>(message.size(), sizeof(end.message)));
  // An empty view may have a null pointer.
  if (!message.empty()) {
    std::memcpy(end.message, message.data(), end.message_bytes);
  }
  return end;
}

StreamCoverage CoverageOf(const SessionCounts& counts, RingTimes times) {
  return {counts.seen_count,      counts.filtered_count, counts.dropped_count,
          counts.truncated_count, counts.degraded_count, times.recording_ns,
          times.open_ns};
}

}  // namespace

void ProducerSession::OnPackets() {
  Packet packet;
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    if (state_ != State::kGreeting && state_ != State::kStreaming) return;
    switch (ReceivePacket(socket_.get(), packet)) {
      case ReceiveResult::kPacket:
        HandlePacket(packet);
        break;
      case ReceiveResult::kNothing:
        return;
      case ReceiveResult::kClosed:
        return WasClosed() ? OnDied() : OnLeft();
    }
  }
}

void ProducerSession::HandlePacket(Packet& packet) {
  SessionHello hello;
  SessionCoverage report;
  SessionFinish finish;
  if (state_ == State::kGreeting) {
    if (!packet.As(hello)) {
      return Refuse(PacketInvalid("the session does not begin with a hello"));
    }
    return HandleHello(hello, packet);
  }
  if (packet.As(report) && ingest::IsTokenEnd(report.token_end)) {
    const StreamCoverage coverage = CoverageOf(report.coverage, ring_->Times());
    if (!IsSound(coverage)) {
      return EndStream(PacketInvalid("a coverage that no stream can have"));
    }
    sink_.ReportCoverage(stream_, coverage, report.token_end);
  } else if (packet.As(finish)) {
    is_complete_ = true;
  } else {
    EndStream(PacketInvalid("a packet that does not belong here"));
  }
}

void ProducerSession::HandleHello(const SessionHello& hello, Packet& packet) {
  if (hello.run_bytes > sizeof(hello.run) ||
      hello.user_agent_bytes > sizeof(hello.user_agent) ||
      hello.job_bytes > sizeof(hello.job)) {
    return Refuse(PacketInvalid("a name of the hello is too long"));
  }
  const std::string_view run(hello.run, hello.run_bytes);
  const std::string_view agent(hello.user_agent, hello.user_agent_bytes);
  // The store validates the name, but the name is logged before that.
  if (!IsValidUtf8(run) || !IsValidUtf8(agent)) {
    return Refuse(PacketInvalid("a name of the hello is no UTF-8"));
  }
  spec_ = ingest::StreamSpec{std::string(run), hello.rank, hello.world_size,
                             hello.stream_id, std::string(agent)};
  if (!IsIfExists(static_cast<uint32_t>(hello.if_exists))) {
    return Refuse(PacketInvalid("if_exists of the hello is unknown"));
  }
  spec_.caller = caller_;
  spec_.shares_memory = true;
  spec_.if_exists = hello.if_exists;
  spec_.job.assign(hello.job, hello.job_bytes);
  wanted_arena_bytes_ = hello.arena_bytes;
  if (packet.fd_count > 0) offered_arena_ = std::move(packet.fds[0]);
  state_ = State::kOpening;
}

void ProducerSession::Open(uint64_t arena_bytes_max) {
  opened_ = TryOpen(arena_bytes_max);
  events_.Post({id_, EventQueue::Kind::kOpened});
}

absl::StatusOr<ProducerSession::Opened> ProducerSession::TryOpen(
    uint64_t arena_bytes_max) {
  has_new_arena_ = !offered_arena_.valid();
  std::shared_ptr<RingArena> arena;
  if (has_new_arena_) {
    const uint64_t bytes =
        std::clamp(wanted_arena_bytes_, kArenaBytesMin, arena_bytes_max);
    MSITD_ASSIGN_OR_RETURN(
        arena, RingArena::Create(bytes / kChunkAlignment * kChunkAlignment));
  } else {
    MSITD_ASSIGN_OR_RETURN(
        arena, RingArena::Adopt(std::move(offered_arena_), arena_bytes_max));
  }
  MSITD_ASSIGN_OR_RETURN(ingest::ChunkSink::Opened opened,
                         sink_.Open(spec_, *this));
  // From here on the pipeline calls this session, which must therefore remain
  // valid.
  Opened out{std::move(opened.stream), std::move(opened.run), nullptr,
             opened.committed_chunk_count, std::move(opened.capture_policy)};
  absl::StatusOr<std::unique_ptr<RingReader>> ring = RingReader::Create(
      std::move(arena), spec_.stream_id, out.committed_count);
  if (ring.ok()) {
    out.ring = *std::move(ring);
    out.ring->SetFirstToken(opened.first_token);
    sink_.NoteMemory(out.stream, std::make_shared<SessionMemory>(out.ring));
  } else {
    sink_.Finish(out.stream, ring.status());
  }
  return out;
}

void ProducerSession::OnOpened() {
  absl::StatusOr<Opened> opened = *std::exchange(opened_, std::nullopt);
  if (const auto suppressed = Limiter().Admit()) {
    log::Get("ingest")->info(
        "open stream run='{}' rank={} stream={:#x} agent='{}' {} "
        "transport=shm result='{}' suppressed={}",
        spec_.run, spec_.rank, spec_.stream_id, spec_.user_agent,
        peer_.ToString(), opened.ok() ? "OK" : Message(opened.status()),
        *suppressed);
  }
  if (!opened.ok()) return Refuse(opened.status());
  stream_ = std::move(opened->stream);
  ring_ = std::move(opened->ring);
  is_renamed_ = spec_.run != opened->run;
  spec_.run = std::move(opened->run);
  state_ = ring_ == nullptr ? State::kEnding : State::kStreaming;
  if (is_ended_) return OnEnded();
  if (ring_ != nullptr && !Welcome(*opened)) OnLeft();
  if (state_ == State::kStreaming && !revoked_.ok()) EndStream(revoked_);
}

bool ProducerSession::SendPolicy(const std::string& policy) {
  const UniqueFd memory =
      MakeSealedMemory("msitd-policy", std::max<size_t>(policy.size(), 1));
  if (!memory.valid() || ::pwrite(memory.get(), policy.data(), policy.size(),
                                  0) != static_cast<ssize_t>(policy.size())) {
    return false;
  }
  SessionPolicy message;
  message.policy_bytes = policy.size();
  const int fd = memory.get();
  return SendMessage(socket_.get(), message, std::span(&fd, 1));
}

bool ProducerSession::Welcome(const Opened& opened) {
  if (!opened.capture_policy.empty() && !SendPolicy(opened.capture_policy)) {
    return false;
  }
  SessionWelcome welcome;
  welcome.committed_count = opened.committed_count;
  welcome.arena_bytes = ring_->arena()->bytes().size();
  welcome.chunk_version = chunk::kVersion;
  if (is_renamed_) {
    welcome.run_bytes = static_cast<uint32_t>(spec_.run.size());
    std::memcpy(welcome.run, spec_.run.data(), spec_.run.size());
  }
  const std::array<int, 3> fds = {ring_->table_fd(), ring_->data_ready_fd(),
                                  ring_->arena()->fd()};
  const bool is_sent =
      SendMessage(socket_.get(), welcome,
                  std::span<const int>(fds).first(has_new_arena_ ? 3 : 2));
  ring_->CloseTableFd();
  ring_->arena()->CloseFd();
  return is_sent;
}

bool ProducerSession::OnData() {
  for (int i = 0; i < kChunksPerTurn; ++i) {
    if (state_ != State::kStreaming || is_paused_) return false;
    auto chunk = ring_->Next();
    if (!chunk.ok()) {
      EndStream(chunk.status());
      return false;
    }
    const std::optional<Offered> offered =
        chunk->has_value() ? sink_.Offer(stream_, **chunk, NewLease())
                           : OfferDraft();
    if (!offered.has_value()) {
      // All chunks were accepted, so the end follows their commit.
      if (is_complete_) EndStream(TakenStatus());
      return false;
    }
    switch (*offered) {
      case Offered::kMore:
        break;
      case Offered::kWait:
        // An event reports when there is room again.
        is_paused_ = true;
        return false;
      case Offered::kEnded:
        state_ = State::kEnding;
        return false;
    }
  }
  return true;
}

std::unique_ptr<ingest::Lease> ProducerSession::NewLease() const {
  return std::make_unique<ArenaLease>(ring_->arena());
}

std::optional<Offered> ProducerSession::OfferDraft() {
  if (!is_dead_) return std::nullopt;
  if (!drafts_.has_value()) {
    const auto found = ring_->Drafts();
    drafts_.emplace(found.begin(), found.end());
    next_draft_sequence_ = ring_->next();
  }
  if (drafts_->empty()) return std::nullopt;
  auto chunk = chunk::Chunk::FromDraft(
      drafts_->front(),
      {spec_.run, spec_.rank, spec_.stream_id, next_draft_sequence_});
  drafts_->pop_front();
  if (!chunk.ok()) LogLost(chunk.status());
  // A draft without a usable chunk must not prevent the other drafts of the
  // dead producer from being stored.
  if (!chunk.ok() || !chunk->has_value()) return Offered::kMore;
  ++next_draft_sequence_;
  return sink_.Offer(stream_, **std::move(chunk), NewLease());
}

void ProducerSession::LogLost(const absl::Status& status) const {
  const auto suppressed = Limiter().Admit();
  if (!suppressed) return;
  log::Get("ingest")->warn(
      "drop an unfinished chunk run='{}' rank={} {} reason={} message='{}' "
      "suppressed={}",
      spec_.run, spec_.rank, peer_.ToString(), Reason(status), Message(status),
      *suppressed);
}

bool ProducerSession::WasClosed() const {
  pollfd event{socket_.get(), 0, 0};
  return ::poll(&event, 1, 0) == 1 && (event.revents & POLLHUP) != 0 &&
         // Pairs with the store in SetCapturePolicy.
         !is_cut_off_.load(std::memory_order_acquire);
}

void ProducerSession::OnDied() {
  is_dead_ = true;
  OnLeft();
}

void ProducerSession::OnLeft() {
  // A producer that has announced its end may leave.
  has_left_ = !std::exchange(is_complete_, true);
  if (state_ == State::kGreeting) state_ = State::kOver;
}

absl::Status ProducerSession::TakenStatus() const {
  return has_left_ ? absl::CancelledError("the producer is gone")
                   : absl::OkStatus();
}

void ProducerSession::EndStream(const absl::Status& status) {
  state_ = State::kEnding;
  sink_.Finish(stream_, status);
}

void ProducerSession::Revoke(const absl::Status& status) {
  switch (state_) {
    case State::kGreeting:
      return Refuse(status);
    case State::kOpening:
      revoked_ = status;
      return;
    case State::kStreaming:
      return EndStream(status);
    case State::kEnding:
    case State::kOver:
      return;
  }
}

void ProducerSession::OnEnded() {
  is_ended_ = true;
  // The task that opens the stream still uses this session.
  if (state_ == State::kOpening) return;
  absl::Status status;
  {
    MutexLock lock(mu_);
    status = *end_;
  }
  if (!status.ok()) {
    if (const auto suppressed = Limiter().Admit()) {
      log::Get("ingest")->warn(
          "stream ended run='{}' rank={} {} reason={} message='{}' "
          "suppressed={}",
          spec_.run, spec_.rank, peer_.ToString(), Reason(status),
          Message(status), *suppressed);
    }
  }
  Refuse(status);
}

void ProducerSession::Refuse(const absl::Status& status) {
  // A producer that does not read the message sees the socket close.
  (void)SendMessage(socket_.get(), ToMessage(status));
  state_ = State::kOver;
}

void ProducerSession::Commit(uint64_t count, uint64_t conflict_count) {
  ring_->Commit(count, conflict_count);
  // The ring contains both counts, so a producer that sees a commit also sees
  // its conflicts. If the message cannot be sent because the producer does not
  // read, then earlier packets that will wake the producer are still queued.
  SessionCommitted message;
  message.conflict_count = conflict_count;
  (void)SendMessage(socket_.get(), message);
}

void ProducerSession::SetCapturePolicy(const std::string& policy) {
  // A producer that does not read is disconnected. It receives the policy when
  // it reconnects.
  if (SendPolicy(policy)) return;
  const bool was_closed = errno == EPIPE || errno == ECONNRESET;
  // Pairs with the load in WasClosed.
  if (!was_closed) is_cut_off_.store(true, std::memory_order_release);
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void ProducerSession::Resume() { events_.Post({id_, EventQueue::Kind::kRoom}); }

void ProducerSession::End(const absl::Status& status) {
  {
    MutexLock lock(mu_);
    end_ = status;
  }
  events_.Post({id_, EventQueue::Kind::kEnded});
}

}  // namespace msitd::shm
