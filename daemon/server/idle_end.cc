// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/idle_end.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

namespace msitd::server {
namespace {

constexpr IdleEnd::Clock::duration kIntervalMax = std::chrono::seconds(2);
constexpr int kChecksPerBound = 10;

std::string Hidden(const std::string& socket) { return socket + ".ending"; }

}  // namespace

IdleEnd::IdleEnd(std::chrono::seconds idle_exit,
                 std::vector<std::string> sockets)
    : idle_exit_(idle_exit),
      interval_(std::min(kIntervalMax, idle_exit_ / kChecksPerBound)),
      sockets_(std::move(sockets)),
      last_activity_(Clock::now()) {}

IdleEnd::~IdleEnd() {
  if (!is_hidden_) return;
  for (const std::string& socket : sockets_) ::unlink(Hidden(socket).c_str());
}

bool IdleEnd::Check(Clock::time_point now, absl::FunctionRef<Activity()> look) {
  if (idle_exit_ == Clock::duration::zero() || now < next_check_) return false;
  next_check_ = now + interval_;
  const Activity activity = look();
  if (activity.is_busy ||
      activity.connection_count !=
          std::exchange(connection_count_, activity.connection_count)) {
    last_activity_ = now;
    return false;
  }
  if (!HasSockets()) return true;
  if (now - last_activity_ < idle_exit_) return false;
  Hide();
  std::this_thread::sleep_for(kLastCall);
  const Activity last = look();
  if (!last.is_busy && last.connection_count == connection_count_) return true;
  Restore();
  last_activity_ = Clock::now();
  return false;
}

bool IdleEnd::HasSockets() const {
  return std::all_of(sockets_.begin(), sockets_.end(),
                     [](const std::string& path) {
                       struct stat info {};
                       return ::lstat(path.c_str(), &info) == 0;
                     });
}

void IdleEnd::Hide() {
  is_hidden_ = true;
  for (const std::string& socket : sockets_) {
    (void)std::rename(socket.c_str(), Hidden(socket).c_str());
  }
}

void IdleEnd::Restore() {
  is_hidden_ = false;
  for (const std::string& socket : sockets_) {
    (void)std::rename(Hidden(socket).c_str(), socket.c_str());
  }
}

}  // namespace msitd::server
