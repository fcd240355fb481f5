// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/shm/shm_session.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "client/libmsit/core/delivery/stream_end.h"
#include "protos/capture/capture_policy.h"
#include "protos/os/thread.h"

namespace msitd::libmsit {
namespace {

constexpr std::string_view kBadAnswer =
    "the answer of the daemon has a different version";

std::string ErrnoMessage(std::string_view what, std::string_view path) {
  // strerror is not thread-safe.
  const std::string reason =
      std::error_code(errno, std::generic_category()).message();
  return std::string("UNAVAILABLE: ")
      .append(what)
      .append(path)
      .append(": ")
      .append(reason);
}

uint64_t WantedArenaBytes(uint64_t buffer_bytes) {
  const uint64_t bytes =
      std::clamp(buffer_bytes, shm::kArenaBytesMin, shm::kArenaBytesMax);
  return bytes / kChunkAlignment * kChunkAlignment;
}

std::string_view Text(const char* text, uint32_t bytes, uint32_t bytes_max) {
  return {text, std::min(bytes, bytes_max)};
}

}  // namespace

ShmSession::ShmSession(const std::string& socket_path,
                       const StreamIdentity& identity,
                       TransportListener* listener, SharedArena& arena)
    : listener_(listener), arena_(arena), had_arena_(arena.fd.valid()) {
  socket_ = shm::ConnectSession(socket_path);
  if (!socket_.valid()) {
    failure_ = ErrnoMessage("connect to ", socket_path);
  } else if (!SayHello(identity)) {
    failure_ = ErrnoMessage("send to ", socket_path);
  }
  thread_ = StartThread("msit-session", [this] { Listen(); });
}

ShmSession::~ShmSession() {
  // This also ends the poll of the thread.
  BreakOff();
  thread_.join();
}

void ShmSession::BreakOff() {
  {
    const std::lock_guard lock(draft_mu_);
    was_broken_off_ = true;
    if (ring_) ring_->KeepDrafts(false);
  }
  // close is not sufficient: a forked child may hold a copy of the descriptor.
  if (socket_.valid()) ::shutdown(socket_.get(), SHUT_RDWR);
}

bool ShmSession::SayHello(const StreamIdentity& identity) {
  shm::SessionHello hello;
  hello.rank = identity.rank;
  hello.world_size = identity.world_size;
  hello.stream_id = identity.stream_id;
  hello.arena_bytes = WantedArenaBytes(identity.buffer_bytes);
  // The client has validated both lengths.
  hello.run_bytes = static_cast<uint32_t>(
      std::min<size_t>(identity.run.size(), sizeof(hello.run)));
  std::memcpy(hello.run, identity.run.data(), hello.run_bytes);
  hello.user_agent_bytes = static_cast<uint32_t>(
      std::min<size_t>(identity.user_agent.size(), sizeof(hello.user_agent)));
  if (hello.user_agent_bytes != 0) {
    std::memcpy(hello.user_agent, identity.user_agent.data(),
                hello.user_agent_bytes);
  }
  hello.if_exists = identity.if_exists;
  hello.job_bytes = static_cast<uint32_t>(
      std::min<size_t>(identity.job.size(), sizeof(hello.job)));
  if (hello.job_bytes != 0) {
    std::memcpy(hello.job, identity.job.data(), hello.job_bytes);
  }
  const int fd = arena_.fd.get();
  return shm::SendMessage(socket_.get(), hello,
                          std::span(&fd, had_arena_ ? 1 : 0));
}

void ShmSession::Publish(std::span<const std::byte> chunk) {
  // A ring that does not accept the chunk is not the agreed one.
  if (!ring_ || !ring_->Publish(chunk)) BreakOff();
}

bool ShmSession::ReportCoverage(const StreamCoverage& coverage,
                                int64_t token_end) {
  shm::SessionCoverage message;
  message.coverage = {coverage.seen_count, coverage.filtered_count,
                      coverage.dropped_count, coverage.truncated_count,
                      coverage.degraded_count};
  if (ring_) ring_->SetTimes({coverage.recording_ns, coverage.open_ns});
  message.token_end = token_end;
  return shm::SendMessage(socket_.get(), message);
}

void ShmSession::Finish() {
  if (!shm::SendMessage(socket_.get(), shm::SessionFinish{})) BreakOff();
}

void ShmSession::Listen() noexcept {
  try {
    ListenUntilEnd();
  } catch (const std::exception& error) {
    // Out of memory. Nothing is lost, and there may be memory later.
    listener_->OnEnd(StreamEnd::kLost, error.what());
  }
}

void ShmSession::ListenUntilEnd() {
  if (!failure_.empty()) {
    End(StreamEnd::kLost, failure_);
    return;
  }
  shm::Packet packet;
  while (true) {
    switch (shm::ReceivePacket(socket_.get(), packet)) {
      case shm::ReceiveResult::kPacket:
        if (!HandlePacket(packet)) return;
        break;
      case shm::ReceiveResult::kNothing: {
        pollfd event{socket_.get(), POLLIN, 0};
        ::poll(&event, 1, -1);
        break;
      }
      case shm::ReceiveResult::kClosed:
        // The last commits may have been recorded in the ring without a packet.
        PassOnCommits();
        End(StreamEnd::kLost, "UNAVAILABLE: the daemon is gone");
        return;
    }
  }
}

bool ShmSession::HandlePacket(shm::Packet& packet) {
  shm::SessionPolicy policy;
  if (packet.As(policy)) return HandlePolicy(packet, policy.policy_bytes);
  shm::SessionWelcome welcome;
  if (!ring_ && packet.As(welcome)) return HandleWelcome(packet, welcome);
  PassOnCommits();
  shm::SessionCommitted committed;
  if (ring_ && packet.As(committed)) {
    // Sent by a daemon that does not count conflicts in the ring.
    PassOnConflicts(committed.conflict_count);
    return true;
  }
  shm::SessionEnd end;
  if (!packet.As(end)) return End(StreamEnd::kRefused, kBadAnswer);
  const std::string_view reason =
      Text(end.reason, end.reason_bytes, sizeof(end.reason));
  const std::string_view message =
      Text(end.message, end.message_bytes, sizeof(end.message));
  return End(EndOf(end.code, reason), EndMessage(end.code, message, reason));
}

bool ShmSession::HandleWelcome(shm::Packet& packet,
                               const shm::SessionWelcome& welcome) {
  if (packet.fd_count != (had_arena_ ? 2 : 3)) {
    return End(StreamEnd::kRefused, kBadAnswer);
  }
  if (!had_arena_ && !TakeArena(packet, welcome.arena_bytes)) return false;
  const int table_fd = packet.fds[0].get();
  if (shm::SealedMemorySize(table_fd) != shm::kTableBytes) {
    return End(StreamEnd::kRefused, kBadAnswer);
  }
  shm::MappedRegion table(table_fd, shm::kTableBytes, PROT_READ | PROT_WRITE);
  if (!table.valid()) {
    return End(StreamEnd::kLost, ErrnoMessage("map the table", ""));
  }
  table.KeepFromChildren();
  if (!shm::RingWriter::IsTable(table, arena_.bytes().size())) {
    return End(StreamEnd::kRefused, kBadAnswer);
  }
  {
    const std::lock_guard lock(draft_mu_);
    ring_.emplace(std::move(table), arena_.bytes(), std::move(packet.fds[1]));
    if (!was_broken_off_) ring_->KeepDrafts(true);
  }
  committed_count_ = welcome.committed_count;
  if (!std::exchange(arena_.is_known, true)) {
    listener_->OnSharedMemory(arena_.bytes());
  }
  if (welcome.run_bytes != 0) {
    listener_->OnRun(Text(welcome.run, welcome.run_bytes, sizeof(welcome.run)));
  }
  if (welcome.chunk_version != 0) {
    listener_->OnChunkVersion(welcome.chunk_version);
  }
  listener_->OnFirstToken(ring_->first_token());
  listener_->OnCommitted(committed_count_);
  return true;
}

bool ShmSession::HandlePolicy(const shm::Packet& packet,
                              uint64_t policy_bytes) {
  if (packet.fd_count != 1 || policy_bytes == 0 ||
      policy_bytes > capture::kPoliciesBytesMax ||
      shm::SealedMemorySize(packet.fds[0].get()) != policy_bytes) {
    return End(StreamEnd::kRefused, kBadAnswer);
  }
  const shm::MappedRegion memory(packet.fds[0].get(), policy_bytes, PROT_READ);
  if (!memory.valid()) {
    return End(StreamEnd::kLost, ErrnoMessage("map the capture policy", ""));
  }
  // A copy, which the daemon cannot change while it is parsed.
  const std::string policy(reinterpret_cast<const char*>(memory.data()),
                           policy_bytes);
  listener_->OnCapturePolicy(policy);
  return true;
}

bool ShmSession::TakeArena(shm::Packet& packet, uint64_t arena_bytes) {
  UniqueFd& fd = packet.fds[2];
  if (!shm::IsArenaSize(arena_bytes) ||
      shm::SealedMemorySize(fd.get()) != arena_bytes) {
    return End(StreamEnd::kRefused, kBadAnswer);
  }
  shm::MappedRegion memory(fd.get(), arena_bytes, PROT_READ | PROT_WRITE);
  if (!memory.valid()) {
    return End(StreamEnd::kLost, ErrnoMessage("map the arena", ""));
  }
  memory.AskForHugePages();
  memory.KeepFromChildren();
  arena_.fd = std::move(fd);
  arena_.memory = std::move(memory);
  return true;
}

void ShmSession::PassOnCommits() {
  if (!ring_) return;
  const uint64_t count = ring_->committed_count();
  // Reported before the commit, because the host reads the conflicts after a
  // commit.
  PassOnConflicts(ring_->conflict_count());
  if (count == committed_count_) return;
  committed_count_ = count;
  listener_->OnCommitted(count);
}

void ShmSession::PassOnConflicts(uint64_t count) {
  if (count <= conflict_count_) return;
  conflict_count_ = count;
  listener_->OnConflicts(count);
}

bool ShmSession::End(StreamEnd end, std::string_view message) {
  listener_->OnEnd(end, message);
  return false;
}

}  // namespace msitd::libmsit
