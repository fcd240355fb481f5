// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/connection_acceptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "daemon/access/peer.h"
#include "protos/base/check.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"
namespace msitd::server {
namespace {

using HandshakePlace = OpenConnections::HandshakePlace;

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 1024;
constexpr int kEventsPerWait = 64;
constexpr int kAcceptsPerTurn = 64;

// The first byte that a client sends, by protocol.
constexpr char kTlsHandshake = 0x16;
constexpr char kHttp2Preface = 'P';

// How long to wait for a file descriptor to become free.
constexpr std::chrono::milliseconds kAcceptPause{100};

// How often to check for a free handshake while connections wait.
constexpr std::chrono::milliseconds kHandshakePause{50};

// Returns whether the peer has sent nothing yet and may still send something.
bool IsSilent(int fd) {
  char first = 0;
  return ::recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool IsShort(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM ||
         error == ENOBUFS;
}

UniqueFd OpenSpare() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// Returns the address of the peer.
std::string PeerOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return "gone";
  }
  if (address.ss_family == AF_UNIX) {
    const absl::StatusOr<access::Peer> who = access::GetPeer(fd);
    if (!who.ok()) return "gone";
    return fmt::format("pid:{},uid:{}", who->pid, who->uid);
  }
  if (::getnameinfo(generic, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return fmt::format("{}:{}", static_cast<const char*>(host),
                     static_cast<const char*>(port));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

absl::Status Taken(const config::ListenAddress& address,
                   std::string_view problem) {
  return MakeStatus(absl::StatusCode::kUnavailable, "cannot listen on {}: {}",
                    address.ToString(), problem);
}

// Returns a listening socket, or -1 with errno set.
UniqueFd ListenAt(const addrinfo& where, uint16_t port) {
  sockaddr_storage address{};
  std::memcpy(&address, where.ai_addr, where.ai_addrlen);
  if (address.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
  UniqueFd fd(
      ::socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  if (!fd.valid()) return fd;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (where.ai_family == AF_INET6) {
    // [::] stands for all addresses, including those of IPv4.
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
             where.ai_addrlen) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return UniqueFd();
  }
  return fd;
}

uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spare_(OpenSpare()) {}

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

size_t ConnectionAcceptor::AddGroup(std::unique_ptr<Handover> handover,
                                    Protocol protocol, size_t connections_max) {
  groups_.push_back(
      std::make_unique<Group>(std::move(handover), protocol, connections_max));
  return groups_.size() - 1;
}

absl::Status ConnectionAcceptor::ListenUnix(size_t group,
                                            const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "'{}' is too long for a socket", path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) != 0 ||
      ::fchmodat(AT_FDCWD, path.c_str(), kSocketMode, AT_SYMLINK_NOFOLLOW) !=
          0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, "listen on " + path);
  }
  Adopt(group, std::move(fd));
  return absl::OkStatus();
}

void ConnectionAcceptor::Adopt(size_t group, UniqueFd listener) {
  listeners_.push_back({std::move(listener), group, /*is_tcp=*/false});
}

absl::StatusOr<uint16_t> ConnectionAcceptor::ListenTcp(
    size_t group, const config::ListenAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error =
          ::getaddrinfo(address.host.c_str(), nullptr, &hints, &list);
      error != 0) {
    return Taken(address, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owner(list);
  uint16_t port = address.port;
  int problem = 0;
  size_t count = 0;
  for (const addrinfo* where = list; where != nullptr; where = where->ai_next) {
    UniqueFd fd = ListenAt(*where, port);
    if (!fd.valid()) {
      problem = errno;
      // A host may have addresses of a family that this machine does not
      // support.
      if (problem == EADDRINUSE) break;
      continue;
    }
    port = PortOf(fd.get());
    listeners_.push_back({std::move(fd), group, /*is_tcp=*/true});
    ++count;
  }
  if (count == 0 || problem == EADDRINUSE) {
    return Taken(address, problem == EADDRINUSE ? "the address is taken"
                                                : "it is not of this machine");
  }
  return port;
}

bool ConnectionAcceptor::Watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void ConnectionAcceptor::Start() {
  MSITD_CHECK(Watch(stop_.get(), EPOLLIN));
  thread_ = StartThread("accept", [this] { Serve(); });
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    MSITD_CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  listeners_.clear();
  for (const auto& group : groups_) {
    group->greetings.clear();
    group->waiting_count = 0;
  }
}

void ConnectionAcceptor::Serve() {
  std::array<epoll_event, kEventsPerWait> events;
  while (true) {
    WatchListeners();
    const int count =
        ::epoll_wait(epoll_.get(), events.data(),
                     static_cast<int>(events.size()), TimeoutMs());
    MSITD_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      const auto listener = std::find_if(
          listeners_.begin(), listeners_.end(),
          [fd](const Listener& l) { return l.socket.get() == fd; });
      if (listener != listeners_.end()) {
        Accept(*listener);
      } else {
        HandleGreeting(fd);
      }
    }
    DropSilent();
    HandOverWaiting();
    if (counts_) UpdateCount();
  }
}

void ConnectionAcceptor::UpdateCount() {
  size_t count = 0;
  for (const auto& group : groups_) {
    group->open.ForgetClosed();
    count += group->open.count() + group->greetings.size();
  }
  connection_count_ = count;
}

int ConnectionAcceptor::TimeoutMs() const {
  Clock::time_point next =
      counts_ ? Clock::now() + kCountInterval : Clock::time_point::max();
  for (const auto& group : groups_) {
    if (!group->greetings.empty()) {
      next = std::min(next, group->greetings.front().deadline);
    }
    if (group->waiting_count > 0) {
      next = std::min(next, Clock::now() + kHandshakePause);
    }
  }
  for (const Listener& listener : listeners_) {
    if (!listener.is_watched) next = std::min(next, accept_time_);
  }
  if (next == Clock::time_point::max()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

void ConnectionAcceptor::WatchListeners() {
  if (Clock::now() < accept_time_) return;
  for (Listener& listener : listeners_) {
    if (!listener.is_watched) {
      listener.is_watched = Watch(listener.socket.get(), EPOLLIN);
    }
  }
}

void ConnectionAcceptor::Accept(Listener& listener) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    UniqueFd socket(::accept4(listener.socket.get(), nullptr, nullptr,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      ++accepted_count_;
      Admit(listener, std::move(socket));
      continue;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (IsShort(errno) && TurnAway(listener)) continue;
    return;
  }
}

bool ConnectionAcceptor::TurnAway(Listener& listener) {
  Group& group = *groups_[listener.group];
  if (const auto suppressed = group.log_limiter.Admit()) {
    log::Get("server")->warn(
        "connection refused reason='no descriptor is free' suppressed={}",
        *suppressed);
  }
  if (spare_.valid()) {
    spare_.reset();
    const UniqueFd refused(::accept4(listener.socket.get(), nullptr, nullptr,
                                     SOCK_CLOEXEC | SOCK_NONBLOCK));
  }
  spare_ = OpenSpare();
  if (spare_.valid()) return true;
  // The socket stays readable, so polling it immediately would spin.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener.socket.get(), nullptr);
  listener.is_watched = false;
  accept_time_ = Clock::now() + kAcceptPause;
  return false;
}

bool ConnectionAcceptor::MakeRoom(Group& group, const std::string& address) {
  const auto is_own = [&address](const Greeting& g) {
    return g.address == address;
  };
  const auto has_address_room = [&] {
    const auto greeting_count = static_cast<size_t>(
        std::count_if(group.greetings.begin(), group.greetings.end(), is_own));
    return group.open.CountOf(address) + greeting_count <
           group.open.address_max();
  };
  const auto has_room = [&group] {
    return group.open.count() + group.greetings.size() < group.connections_max;
  };
  bool has_own_room = has_address_room();
  if (has_own_room && has_room()) return true;
  group.open.ForgetClosed();
  has_own_room = has_address_room();
  if (has_own_room && has_room()) return true;
  // Drops the oldest silent connection. Other connections may have sent data
  // whose event has not been handled yet.
  const auto may_go = [&](const Greeting& g) {
    return has_own_room || is_own(g);
  };
  auto dropped = std::find_if(
      group.greetings.begin(), group.greetings.end(), [&](const Greeting& g) {
        return may_go(g) && !g.has_spoken && IsSilent(g.socket.get());
      });
  if (dropped == group.greetings.end()) {
    dropped =
        std::find_if(group.greetings.begin(), group.greetings.end(), may_go);
  }
  if (dropped == group.greetings.end()) return false;
  Drop(group, dropped);
  return true;
}

void ConnectionAcceptor::Drop(Group& group,
                              std::list<Greeting>::iterator greeting) {
  if (greeting->has_spoken) --group.waiting_count;
  group.greetings.erase(greeting);
}

void ConnectionAcceptor::Admit(Listener& listener, UniqueFd socket) {
  Group& group = *groups_[listener.group];
  // Only TLS connections are counted by address.
  std::string address =
      group.protocol == Protocol::kTls ? PeerAddress(socket.get()) : "";
  if (!MakeRoom(group, address)) {
    if (const auto suppressed = group.log_limiter.Admit()) {
      log::Get("server")->warn(
          "connection refused peer={} reason='{} connections are open, {} of "
          "this address' suppressed={}",
          PeerOf(socket.get()), group.open.count(), group.open.CountOf(address),
          *suppressed);
    }
    return;
  }
  if (listener.is_tcp) {
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (!Watch(socket.get(), EPOLLIN)) return;
  group.greetings.push_back({std::move(socket), listener.socket.get(),
                             Clock::now() + kGreetingTimeout,
                             std::move(address)});
}

void ConnectionAcceptor::HandleGreeting(int fd) {
  for (const auto& group : groups_) {
    const auto it =
        std::find_if(group->greetings.begin(), group->greetings.end(),
                     [fd](const Greeting& g) { return g.socket.get() == fd; });
    if (it == group->greetings.end()) continue;
    // The event may belong to an earlier connection with the same descriptor.
    if (it->has_spoken || IsSilent(fd)) return;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    if (!SpeaksTo(*group, fd)) return Drop(*group, it);
    it->has_spoken = true;
    ++group->waiting_count;
    if (group->open.FindHandshakePlace(it->address, Clock::now()) ==
        HandshakePlace::kFree) {
      return HandOver(*group, it);
    }
    if (const auto suppressed = group->log_limiter.Admit()) {
      log::Get("server")->warn(
          "connection waits peer={} reason='too many handshakes are under "
          "way' suppressed={}",
          PeerOf(fd), *suppressed);
    }
    return;
  }
}

void ConnectionAcceptor::HandOver(Group& group,
                                  std::list<Greeting>::iterator greeting) {
  Greeting taken = std::move(*greeting);
  Drop(group, greeting);
  const std::string peer = PeerOf(taken.socket.get());
  group.open.Add(taken.socket.get(), taken.address, Clock::now());
  const absl::Status status =
      group.handover->Take(taken.listener, std::move(taken.socket));
  if (status.ok()) return;
  if (const auto suppressed = group.log_limiter.Admit()) {
    log::Get("server")->warn(
        "connection refused peer={} reason='{}' suppressed={}", peer,
        Message(status), *suppressed);
  }
}

void ConnectionAcceptor::HandOverWaiting() {
  for (const auto& group : groups_) {
    if (group->waiting_count == 0) continue;
    // Addresses without a free handshake do not get one later in this round.
    std::set<std::string> full;
    for (auto it = group->greetings.end(); it != group->greetings.begin();) {
      --it;
      if (!it->has_spoken || full.contains(it->address)) continue;
      const HandshakePlace place =
          group->open.FindHandshakePlace(it->address, Clock::now());
      if (place == HandshakePlace::kAllAreFull) break;
      if (place == HandshakePlace::kAddressIsFull) {
        full.insert(it->address);
        continue;
      }
      const auto next = std::next(it);
      HandOver(*group, it);
      it = next;
    }
  }
}

bool ConnectionAcceptor::SpeaksTo(Group& group, int fd) {
  char first = 0;
  if (::recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1) return false;
  const bool wants_tls = group.protocol == Protocol::kTls;
  if (first == (wants_tls ? kTlsHandshake : kHttp2Preface)) return true;
  if (const auto suppressed = group.log_limiter.Admit()) {
    log::Get("server")->warn(
        "connection refused peer={} reason='speaks no {}' suppressed={}",
        PeerOf(fd), wants_tls ? "TLS" : "HTTP/2", *suppressed);
  }
  return false;
}

void ConnectionAcceptor::DropSilent() {
  const auto now = Clock::now();
  for (const auto& group : groups_) {
    while (!group->greetings.empty() &&
           group->greetings.front().deadline <= now) {
      Drop(*group, group->greetings.begin());
    }
  }
}

}  // namespace msitd::server
