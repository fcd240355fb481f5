// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/folder_events.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "client/foreign/trees/tree_folder.h"
#include "protos/status/status.h"

namespace msitd::watch {
namespace {

constexpr uint32_t kMask = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_FROM |
                           IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF |
                           IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW;

// Bytes that are read from the system at once.
constexpr size_t kReadBytes = size_t{64} << 10;
// Reads before events are returned to the caller. The queue of the system may
// fill up again indefinitely.
constexpr int kReadsMax = 64;

bool IsBelow(const std::string& path, const std::string& folder) {
  return folder.empty() || path == folder || path.starts_with(folder + "/");
}

FolderEvent::Kind KindOf(uint32_t mask) {
  const bool is_folder = (mask & IN_ISDIR) != 0;
  if ((mask & (IN_MOVED_FROM | IN_DELETE)) != 0) {
    return is_folder ? FolderEvent::Kind::kFolderGone
                     : FolderEvent::Kind::kGone;
  }
  if (is_folder) return FolderEvent::Kind::kFolder;
  return (mask & IN_CREATE) != 0 ? FolderEvent::Kind::kWritten
                                 : FolderEvent::Kind::kClosed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InotifyEvents>> InotifyEvents::Open(
    const std::string& root) {
  UniqueFd queue(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!queue.valid()) return ErrnoStatus(errno, "inotify");
  return std::unique_ptr<InotifyEvents>(
      new InotifyEvents(root, std::move(queue)));
}

absl::Status InotifyEvents::Add(const std::string& folder) {
  const std::string path = trees::JoinPath(root_, folder);
  const uint32_t mask = folder.empty() ? kMask & ~IN_DONT_FOLLOW : kMask;
  const int watch = ::inotify_add_watch(queue_.get(), path.c_str(), mask);
  if (watch < 0) {
    if (errno == ENOSPC || errno == ENOMEM) {
      return absl::ResourceExhaustedError(
          "the limit of inotify watches is reached "
          "(fs.inotify.max_user_watches)");
    }
    return ErrnoStatus(errno, path);
  }
  const auto before = folders_.find(watch);
  if (before != folders_.end() && before->second == folder) {
    return absl::OkStatus();
  }
  // A folder that was moved keeps its watch.
  if (before != folders_.end()) watches_.erase(before->second);
  const auto other = watches_.find(folder);
  if (other != watches_.end()) folders_.erase(other->second);
  folders_[watch] = folder;
  watches_[folder] = watch;
  return absl::OkStatus();
}

void InotifyEvents::Remove(const std::string& folder) {
  for (auto at = watches_.lower_bound(folder); at != watches_.end();) {
    if (!at->first.starts_with(folder)) break;
    if (!IsBelow(at->first, folder)) {
      ++at;
      continue;
    }
    (void)::inotify_rm_watch(queue_.get(), at->second);
    folders_.erase(at->second);
    at = watches_.erase(at);
  }
}

void InotifyEvents::Forget(int watch) {
  const auto at = folders_.find(watch);
  if (at == folders_.end()) return;
  watches_.erase(at->second);
  folders_.erase(at);
}

absl::Status InotifyEvents::Wait(std::chrono::milliseconds limit,
                                 std::vector<FolderEvent>* out) {
  pollfd ready = {.fd = queue_.get(), .events = POLLIN, .revents = 0};
  const int count = ::poll(&ready, 1, static_cast<int>(limit.count()));
  if (count < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
  if (count <= 0) return absl::OkStatus();
  std::vector<char> bytes(kReadBytes);
  for (int i = 0; i < kReadsMax; ++i) {
    const ssize_t got = ::read(queue_.get(), bytes.data(), bytes.size());
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      return ErrnoStatus(errno, "read inotify");
    }
    if (got <= 0) return absl::OkStatus();
    const char* at = bytes.data();
    const char* const end = at + got;
    while (at < end) {
      inotify_event event = {};
      std::memcpy(&event, at, sizeof(event));
      const char* const name = at + sizeof(event);
      at = name + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        out->push_back({FolderEvent::Kind::kLost, "", ""});
        continue;
      }
      const auto folder = folders_.find(event.wd);
      if (folder == folders_.end()) continue;
      const uint32_t own = IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED;
      if ((event.mask & own) != 0) {
        out->push_back({FolderEvent::Kind::kUnwatched, folder->second, ""});
        if ((event.mask & IN_MOVE_SELF) != 0) {
          (void)::inotify_rm_watch(queue_.get(), event.wd);
        }
        Forget(event.wd);
        continue;
      }
      out->push_back({KindOf(event.mask), folder->second,
                      event.len > 0 ? std::string(name) : std::string()});
    }
  }
  return absl::OkStatus();
}

}  // namespace msitd::watch
