// SPDX-License-Identifier: Apache-2.0
#include "daemon/shm/ingest_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "daemon/log/log.h"
#include "protos/base/check.h"
#include "protos/os/thread.h"
#include "protos/shm/huge_pages.h"
#include "protos/status/status.h"
namespace msitd::shm {
namespace {

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 128;
constexpr int kEventsPerWait = 64;
constexpr int kAcceptsPerTurn = 8;

// A producer that wakes the thread this many times in a row without a chunk is
// ignored for a while, because it could otherwise keep a core busy. Chunks that
// it publishes during that time are processed afterwards.
constexpr int kIdleWakesMax = 16;
constexpr std::chrono::milliseconds kRest{2};

// How long to wait for a file descriptor to become free.
constexpr std::chrono::seconds kAcceptPause{1};

// Data of epoll events that do not belong to a session. The data of sessions
// begins at kSourceCount because session ids begin at 1.
constexpr uint64_t kListenerData = 0;
constexpr uint64_t kQueueData = 1;
constexpr uint64_t kSourceCount = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<IngestServer>> IngestServer::Start(
    const IngestServerOptions& options, ingest::ChunkSink& sink,
    TaskRunner run_task, UniqueFd listener) {
  std::unique_ptr<IngestServer> server(
      new IngestServer(options, sink, std::move(run_task)));
  if (listener.valid()) {
    server->listener_ = std::move(listener);
  } else {
    MSITD_RETURN_IF_ERROR(server->Bind());
  }
  MSITD_RETURN_IF_ERROR(server->Listen());
  log::Get("ingest")->info("share memory pages={}", MemoryPages());
  server->thread_ =
      StartThread("shared-memory", [&server = *server] { server.Serve(); });
  return server;
}

IngestServer::IngestServer(const IngestServerOptions& options,
                           ingest::ChunkSink& sink, TaskRunner run_task)
    : options_(options),
      sink_(sink),
      run_task_(std::move(run_task)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      session_shares_({.what = "sessions of producers",
                       .capacity = options.sessions_max,
                       .reason = ErrorReason::kStreamsExhausted}) {}

std::string IngestServer::MemoryPages() {
  return HasHugePages() ? "huge" : "small";
}

IngestServer::~IngestServer() { Stop(); }

void IngestServer::Stop() {
  if (!thread_.joinable()) return;
  if (owns_socket_file_) ::unlink(options_.socket_path.c_str());
  events_.Post({0, EventQueue::Kind::kStop});
  thread_.join();
}

absl::Status IngestServer::Bind() {
  const std::string& path = options_.socket_path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "'{}' is too long for a socket", path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  listener_ = UniqueFd(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid() ||
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) != 0 ||
      ::fchmodat(AT_FDCWD, path.c_str(), kSocketMode, AT_SYMLINK_NOFOLLOW) !=
          0 ||
      ::listen(listener_.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, "listen on " + path);
  }
  owns_socket_file_ = true;
  return absl::OkStatus();
}

absl::Status IngestServer::Listen() {
  const std::string& path = options_.socket_path;
  struct stat info {};
  if (!epoll_.valid() || ::lstat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "listen on " + path);
  }
  socket_group_ = info.st_gid;
  watches_listener_ = Watch(listener_.get(), EPOLLIN, kListenerData);
  if (!watches_listener_ || !Watch(events_.fd(), EPOLLIN, kQueueData)) {
    return ErrnoStatus(errno, "watch " + path);
  }
  return absl::OkStatus();
}

bool IngestServer::Watch(int fd, uint32_t events, uint64_t data) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

// Closing a descriptor does not remove it from the epoll set if the producer
// holds another descriptor of the same open file.
void IngestServer::Unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void IngestServer::Serve() {
  std::array<epoll_event, kEventsPerWait> events;
  while (!is_stopping_ || !sessions_.empty()) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(),
                     static_cast<int>(events.size()), TimeoutMs());
    MSITD_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const uint64_t data = events[static_cast<size_t>(i)].data.u64;
      if (data == kListenerData) {
        Accept();
      } else if (data == kQueueData) {
        HandleEvents();
      } else {
        HandleSource(data);
      }
    }
    for (const uint64_t id : std::exchange(again_, {})) {
      const auto it = sessions_.find(id);
      if (it != sessions_.end()) Settle(*it->second.session, id);
    }
    RefuseSilent();
    EndRests();
    if (!watches_listener_ && !is_stopping_ && Clock::now() >= accept_time_) {
      watches_listener_ = Watch(listener_.get(), EPOLLIN, kListenerData);
    }
  }
}

int IngestServer::TimeoutMs() const {
  if (!again_.empty()) return 0;
  Clock::time_point next = Clock::time_point::max();
  if (!greetings_.empty()) next = greetings_.front().first;
  if (!rests_.empty()) next = std::min(next, rests_.front().first);
  if (!watches_listener_ && !is_stopping_) next = std::min(next, accept_time_);
  if (next == Clock::time_point::max()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 3'600'000));
}

void IngestServer::Accept() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      Greet(std::move(socket));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
        errno == ENOBUFS) {
      // The socket stays readable, so polling it immediately would spin.
      Unwatch(listener_.get());
      watches_listener_ = false;
      accept_time_ = Clock::now() + kAcceptPause;
    }
    return;
  }
}

void IngestServer::Greet(UniqueFd socket) {
  absl::StatusOr<access::Peer> peer = access::GetPeer(socket.get());
  if (!peer.ok()) return;
  const int fd = socket.get();
  const absl::StatusOr<access::Caller> caller = Admit(*peer);
  auto session = std::make_unique<ProducerSession>(
      ++last_id_, std::move(socket), *peer,
      caller.ok() ? *caller : access::Caller(), sink_, events_);
  if (const absl::Status& status = caller.status(); !status.ok()) {
    if (const auto suppressed = log_limiter_.Admit()) {
      log::Get("ingest")->warn("refuse producer {} reason={} suppressed={}",
                               peer->ToString(), Reason(status), *suppressed);
    }
    return session->Refuse(status);
  }
  while (greetings_.size() >= options_.greetings_max) {
    TurnAway(absl::ResourceExhaustedError("others wait to say hello"),
             ErrorReason::kStreamsExhausted);
  }
  Held held;
  const auto data = [this](Source source) {
    return last_id_ * kSourceCount + static_cast<uint64_t>(source);
  };
  held.watches_socket = Watch(fd, EPOLLIN, data(Source::kSocket));
  if (!held.watches_socket) return;
  if (session->process_fd() >= 0) {
    Watch(session->process_fd(), EPOLLIN, data(Source::kProcess));
  }
  held.session = std::move(session);
  sessions_.emplace(last_id_, std::move(held));
  session_count_ = sessions_.size();
  greetings_.emplace_back(Clock::now() + options_.hello_timeout, last_id_);
}

absl::StatusOr<access::Caller> IngestServer::Admit(
    const access::Peer& peer) const {
  const auto policy = options_.policy == nullptr
                          ? std::make_shared<const access::AccessPolicy>()
                          : options_.policy->Get();
  return policy->AdmitUser(peer, socket_group_, access::Role::kWriter);
}

void IngestServer::JudgeSessions() {
  std::vector<uint64_t> revoked;
  for (auto& [id, held] : sessions_) {
    const absl::Status status = Admit(held.session->peer()).status();
    if (status.ok()) continue;
    held.session->Revoke(status);
    revoked.push_back(id);
  }
  // Settling removes sessions that are over.
  for (const uint64_t id : revoked) Settle(*sessions_.at(id).session, id);
}

void IngestServer::TurnAway(const absl::Status& status, ErrorReason reason) {
  const uint64_t id = greetings_.front().second;
  greetings_.pop_front();
  const auto it = sessions_.find(id);
  if (it == sessions_.end() ||
      it->second.session->state() != ProducerSession::State::kGreeting) {
    return;
  }
  it->second.session->Refuse(WithReason(status, reason));
  Settle(*it->second.session, id);
}

void IngestServer::RefuseSilent() {
  const auto now = Clock::now();
  while (!greetings_.empty()) {
    const auto [deadline, id] = greetings_.front();
    const auto it = sessions_.find(id);
    const bool is_silent =
        it != sessions_.end() &&
        it->second.session->state() == ProducerSession::State::kGreeting;
    if (is_silent && now < deadline && !is_stopping_) return;
    TurnAway(absl::DeadlineExceededError("no hello has come"),
             ErrorReason::kFieldInvalid);
  }
}

void IngestServer::HandleEvents() {
  for (const EventQueue::Event event : events_.Take()) {
    if (event.kind == EventQueue::Kind::kStop) {
      is_stopping_ = true;
      Unwatch(listener_.get());
      watches_listener_ = false;
      continue;
    }
    if (event.kind == EventQueue::Kind::kPolicy) {
      JudgeSessions();
      continue;
    }
    const auto it = sessions_.find(event.session);
    // The stream and its session may have ended before this event is handled.
    if (it == sessions_.end()) continue;
    ProducerSession& session = *it->second.session;
    switch (event.kind) {
      case EventQueue::Kind::kOpened:
        session.OnOpened();
        break;
      case EventQueue::Kind::kRoom:
        session.OnRoom();
        break;
      case EventQueue::Kind::kEnded:
        session.OnEnded();
        break;
      case EventQueue::Kind::kPolicy:
      case EventQueue::Kind::kStop:
        break;
    }
    Settle(session, event.session);
  }
}

void IngestServer::HandleSource(uint64_t data) {
  const uint64_t id = data / kSourceCount;
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Held& held = it->second;
  switch (static_cast<Source>(data % kSourceCount)) {
    case Source::kSocket:
      held.session->OnPackets();
      break;
    case Source::kData:
      CountWake(id);
      break;
    case Source::kProcess:
      Unwatch(held.session->process_fd());
      held.session->OnDied();
      break;
  }
  Settle(*held.session, id);
}

void IngestServer::CountWake(uint64_t id) {
  Held& held = sessions_.at(id);
  if (held.session->has_data()) {
    held.idle_wake_count = 0;
    return;
  }
  if (++held.idle_wake_count < kIdleWakesMax || !held.watches_data) return;
  held.idle_wake_count = 0;
  held.is_resting = true;
  held.watches_data = false;
  Unwatch(held.session->data_ready_fd());
  rests_.emplace_back(Clock::now() + kRest, id);
}

void IngestServer::EndRests() {
  while (!rests_.empty() && rests_.front().first <= Clock::now()) {
    const uint64_t id = rests_.front().second;
    rests_.pop_front();
    const auto it = sessions_.find(id);
    if (it == sessions_.end()) continue;
    it->second.is_resting = false;
    Settle(*it->second.session, id);
  }
}

void IngestServer::Settle(ProducerSession& session, uint64_t id) {
  using State = ProducerSession::State;
  Held& held = sessions_.at(id);
  if (session.state() == State::kStreaming && !held.watches_data &&
      !held.is_resting) {
    held.watches_data =
        Watch(session.data_ready_fd(), EPOLLIN | EPOLLET,
              id * kSourceCount + static_cast<uint64_t>(Source::kData));
    // A producer whose data cannot be watched is treated as if it had left.
    if (!held.watches_data) session.OnLeft();
  }
  if (session.state() == State::kStreaming && session.OnData()) {
    again_.insert(id);
  }
  // A socket that is not read would wake the thread forever.
  const bool reads = session.reads_packets();
  if (held.watches_socket && !reads) {
    Unwatch(session.socket());
    held.watches_socket = false;
  } else if (!held.watches_socket && reads) {
    held.watches_socket =
        Watch(session.socket(), EPOLLIN,
              id * kSourceCount + static_cast<uint64_t>(Source::kSocket));
  }
  if (session.state() == State::kOpening && !held.is_opening) {
    held.is_opening = true;
    absl::StatusOr<access::FairShares::Grant> share =
        session_shares_.Acquire(session.caller());
    if (share.ok()) {
      held.share = *std::move(share);
      StartOpening(session);
    } else {
      session.Refuse(share.status());
    }
  }
  if (session.state() == State::kOver) Remove(id);
}

void IngestServer::StartOpening(ProducerSession& session) {
  const absl::Status status = run_task_(
      [&session, bytes = options_.arena_bytes_max] { session.Open(bytes); });
  if (status.ok()) return;
  session.Refuse(status);
}

void IngestServer::Remove(uint64_t id) {
  const auto it = sessions_.find(id);
  ProducerSession& session = *it->second.session;
  if (it->second.watches_socket) Unwatch(session.socket());
  if (it->second.watches_data) Unwatch(session.data_ready_fd());
  if (session.process_fd() >= 0) Unwatch(session.process_fd());
  sessions_.erase(it);
  session_count_ = sessions_.size();
}

}  // namespace msitd::shm
