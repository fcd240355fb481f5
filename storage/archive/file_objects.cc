// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/file_objects.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <random>
#include <utility>

#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// Permissions for files and folders that are created in a folder. The group of
// the daemon is usually that of all users who may connect to it, so objects are
// accessible to their owner only. A folder with the setgid bit was set up to be
// shared with its group. In such a folder, objects get the permissions that the
// group has for the folder.
struct Modes {
  mode_t file = 0600;
  mode_t folder = 0700;
};

Modes ModesIn(int folder) {
  Modes out;
  struct stat info;
  if (::fstat(folder, &info) == 0 && (info.st_mode & S_ISGID) != 0) {
    out.file |= info.st_mode & S_IRGRP;
    out.folder |= info.st_mode & S_IRWXG;
  }
  return out;
}

// Maximum size of one write; the limit of the kernel is 2 GiB.
constexpr size_t kWriteBytesMax = size_t{64} << 20;

absl::Status WriteAll(int fd, std::span<const std::byte> bytes,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::write(fd, bytes.data(), std::min(bytes.size(), kWriteBytesMax));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write " + path);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Sets the reason of a full disk, as for the disk of the store.
absl::Status WithDiskFull(absl::Status status) {
  return status.code() == absl::StatusCode::kResourceExhausted
             ? WithReason(std::move(status), ErrorReason::kDiskFull)
             : status;
}

// Returns the folder of a key, empty if none, and the name in it.
std::pair<std::string_view, std::string_view> Split(std::string_view key) {
  const size_t slash = key.rfind('/');
  if (slash == std::string_view::npos) return {{}, key};
  return {key.substr(0, slash), key.substr(slash + 1)};
}

class FileObjects final : public ObjectStore {
 public:
  FileObjects(UniqueFd top, std::string path, std::string_view below,
              const FileAbilities& abilities)
      : top_(std::move(top)),
        path_(std::move(path)),
        below_(below),
        makes_unnamed_(abilities.makes_unnamed),
        links_(abilities.links),
        renames_exclusively_(abilities.renames_exclusively),
        url_("file://" + path_ + (below_.empty() ? "" : "/" + below_)) {}

  const std::string& url() const override { return url_; }

  absl::StatusOr<ObjectStat> Stat(std::string_view key) override {
    MSITD_ASSIGN_OR_RETURN(const UniqueFd fd, Open(key));
    return StatOf(fd.get(), key);
  }

  absl::Status Read(std::string_view key, uint64_t offset,
                    std::span<std::byte> out) override {
    MSITD_ASSIGN_OR_RETURN(const UniqueFd fd, Open(key));
    return ReadFrom(fd.get(), key, offset, out);
  }

  absl::StatusOr<std::string> Get(std::string_view key,
                                  uint64_t bytes_max) override {
    MSITD_ASSIGN_OR_RETURN(const UniqueFd fd, Open(key));
    MSITD_ASSIGN_OR_RETURN(const ObjectStat stat, StatOf(fd.get(), key));
    const uint64_t size = stat.bytes;
    if (size > bytes_max) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "{} has {} bytes, of at most {}", Name(key), size,
                        bytes_max);
    }
    std::string out(size, '\0');
    MSITD_RETURN_IF_ERROR(
        ReadFrom(fd.get(), key, 0, std::as_writable_bytes(std::span(out))));
    return out;
  }

  absl::Status Put(std::string_view key,
                   std::span<const std::byte> bytes) override {
    return Write(key, bytes, /*replaces=*/true);
  }

  absl::Status PutIfAbsent(std::string_view key,
                           std::span<const std::byte> bytes) override {
    return Write(key, bytes, /*replaces=*/false);
  }

  absl::Status Delete(std::string_view key) override {
    const auto [folder, name] = Split(key);
    const absl::StatusOr<UniqueFd> fd = OpenFolder(folder, /*makes=*/false);
    if (!fd.ok()) {
      return absl::IsNotFound(fd.status()) ? absl::OkStatus() : fd.status();
    }
    if (::unlinkat(fd->get(), std::string(name).c_str(), 0) != 0 &&
        errno != ENOENT) {
      return ErrnoStatus(errno, "remove " + Name(key));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ObjectList> List(std::string_view folder) override {
    ObjectList out;
    absl::StatusOr<UniqueFd> fd = OpenFolder(folder, /*makes=*/false);
    if (!fd.ok()) {
      if (absl::IsNotFound(fd.status())) return out;
      return fd.status();
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd->get()),
                                                  ::closedir);
    if (dir == nullptr) return ErrnoStatus(errno, "list " + Name(folder));
    fd->release();
    while (true) {
      errno = 0;
      const dirent* const entry = ::readdir(dir.get());
      if (entry == nullptr) {
        // A list that ends early would be mistaken for one with fewer runs.
        if (errno != 0) return ErrnoStatus(errno, "list " + Name(folder));
        break;
      }
      const std::string name = entry->d_name;
      if (!IsObjectKey(name)) continue;
      struct stat info;
      if (::fstatat(::dirfd(dir.get()), name.c_str(), &info,
                    AT_SYMLINK_NOFOLLOW) != 0) {
        continue;
      }
      if (S_ISDIR(info.st_mode)) out.folders.push_back(name);
      if (S_ISREG(info.st_mode)) out.objects.push_back(name);
      if (out.folders.size() + out.objects.size() > kListedMax) {
        return MakeStatus(absl::StatusCode::kResourceExhausted,
                          "{} holds more than {} names", Name(folder),
                          kListedMax);
      }
    }
    std::sort(out.folders.begin(), out.folders.end());
    std::sort(out.objects.begin(), out.objects.end());
    return out;
  }

 private:
  std::string Name(std::string_view key) const {
    return fmt::format("{}/{}", url_, key);
  }

  // Walks from the top, so that no link leads outside of it.
  absl::StatusOr<UniqueFd> OpenFolder(std::string_view folder, bool makes) {
    std::string whole = below_;
    if (!whole.empty() && !folder.empty()) whole += '/';
    whole += folder;
    // Not a duplicate, because all duplicates share one position.
    UniqueFd fd(::openat(top_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus(errno, "open " + path_);
    std::string_view rest = whole;
    std::string walked = path_;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('/'), rest.size());
      const std::string name(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      walked += '/' + name;
      if (makes &&
          ::mkdirat(fd.get(), name.c_str(), ModesIn(fd.get()).folder) == 0) {
        MSITD_RETURN_IF_ERROR(SyncFolder(fd.get(), walked));
      } else if (makes && errno != EEXIST) {
        return WithDiskFull(ErrnoStatus(errno, "make directory " + walked));
      }
      UniqueFd next(::openat(fd.get(), name.c_str(),
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!next.valid()) return OpenError(errno, walked);
      fd = std::move(next);
    }
    return fd;
  }

  absl::StatusOr<UniqueFd> Open(std::string_view key) {
    const auto [folder, name] = Split(key);
    MSITD_ASSIGN_OR_RETURN(const UniqueFd dir,
                           OpenFolder(folder, /*makes=*/false));
    UniqueFd fd(::openat(dir.get(), std::string(name).c_str(),
                         O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!fd.valid()) return OpenError(errno, Name(key));
    return fd;
  }

  static absl::Status OpenError(int error, const std::string& what) {
    if (error == ELOOP || error == ENOTDIR) {
      return MakeStatus(
          absl::StatusCode::kPermissionDenied,
          "open {}: a symbolic link, or no directory, lies on the "
          "way",
          what);
    }
    return ErrnoStatus(error, "open " + what);
  }

  absl::StatusOr<ObjectStat> StatOf(int fd, std::string_view key) {
    struct stat info;
    if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, "stat " + Name(key));
    if (!S_ISREG(info.st_mode)) {
      return MakeStatus(absl::StatusCode::kPermissionDenied,
                        "{} is no regular file", Name(key));
    }
    return ObjectStat{static_cast<uint64_t>(info.st_size), info.st_mtime};
  }

  absl::Status ReadFrom(int fd, std::string_view key, uint64_t offset,
                        std::span<std::byte> out) {
    while (!out.empty()) {
      const ssize_t count =
          ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return ErrnoStatus(errno, "read " + Name(key));
      if (count == 0) {
        return MakeStatus(absl::StatusCode::kDataLoss,
                          "{} ends at byte {}, {} bytes too early", Name(key),
                          offset, out.size());
      }
      offset += static_cast<uint64_t>(count);
      out = out.subspan(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::Status Write(std::string_view key, std::span<const std::byte> bytes,
                     bool replaces) {
    const auto [folder, name_view] = Split(key);
    const std::string name(name_view);
    const std::string shown = Name(key);
    MSITD_ASSIGN_OR_RETURN(const UniqueFd dir,
                           OpenFolder(folder, /*makes=*/true));
    if (makes_unnamed_) {
      const UniqueFd fd(::openat(dir.get(), ".",
                                 O_TMPFILE | O_WRONLY | O_CLOEXEC,
                                 ModesIn(dir.get()).file));
      if (fd.valid()) {
        MSITD_RETURN_IF_ERROR(Fill(fd.get(), bytes, shown));
        MSITD_RETURN_IF_ERROR(
            LinkUnnamed(fd.get(), dir.get(), name, replaces, shown));
        return SyncFolder(dir.get(), shown);
      }
      if (!IsUnsupported(errno)) {
        return WithDiskFull(ErrnoStatus(errno, "make a file for " + shown));
      }
      makes_unnamed_ = false;
    }
    MSITD_RETURN_IF_ERROR(WriteNamed(dir.get(), name, bytes, replaces, shown));
    return SyncFolder(dir.get(), shown);
  }

  static absl::Status Fill(int fd, std::span<const std::byte> bytes,
                           const std::string& shown) {
    MSITD_RETURN_IF_ERROR(WithDiskFull(WriteAll(fd, bytes, shown)));
    if (::fsync(fd) == 0) return absl::OkStatus();
    return WithDiskFull(ErrnoStatus(errno, "sync " + shown));
  }

  // Not every file system syncs a directory.
  static absl::Status SyncFolder(int dir, const std::string& shown) {
    if (::fsync(dir) == 0 || IsUnsupported(errno)) return absl::OkStatus();
    return ErrnoStatus(errno, "sync " + shown);
  }

  static std::string TemporaryName(const std::string& name) {
    return fmt::format("{}{}-{:08x}", kTemporaryPrefix, name,
                       std::random_device()());
  }

  // Gives a file without a name its name.
  static absl::Status LinkUnnamed(int fd, int dir, const std::string& name,
                                  bool replaces, const std::string& shown) {
    const std::string source = fmt::format("/proc/self/fd/{}", fd);
    const auto link = [&](const std::string& as) {
      return ::linkat(AT_FDCWD, source.c_str(), dir, as.c_str(),
                      AT_SYMLINK_FOLLOW) == 0;
    };
    if (link(name)) return absl::OkStatus();
    if (errno != EEXIST || !replaces) {
      return WithDiskFull(ErrnoStatus(errno, "link " + shown));
    }
    // The existing object is kept until the new one replaces it.
    const std::string other = TemporaryName(name);
    if (!link(other)) {
      return WithDiskFull(ErrnoStatus(errno, "link " + shown));
    }
    return Rename(dir, other, name, shown);
  }

  static absl::Status Rename(int dir, const std::string& from,
                             const std::string& to, const std::string& shown) {
    if (::renameat(dir, from.c_str(), dir, to.c_str()) == 0) {
      return absl::OkStatus();
    }
    const int error = errno;
    ::unlinkat(dir, from.c_str(), 0);
    return WithDiskFull(ErrnoStatus(error, "rename to " + shown));
  }

  // Writes an object on a file system that does not support unnamed files.
  absl::Status WriteNamed(int dir, const std::string& name,
                          std::span<const std::byte> bytes, bool replaces,
                          const std::string& shown) {
    const bool is_direct = !replaces && !links_ && !renames_exclusively_;
    const std::string made = is_direct ? name : TemporaryName(name);
    const UniqueFd fd(::openat(
        dir, made.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC,
        ModesIn(dir).file));
    if (!fd.valid()) {
      return WithDiskFull(ErrnoStatus(errno, "make a file for " + shown));
    }
    if (const absl::Status status = Fill(fd.get(), bytes, shown);
        !status.ok()) {
      ::unlinkat(dir, made.c_str(), 0);
      return status;
    }
    if (is_direct) return absl::OkStatus();
    if (replaces) return Rename(dir, made, name, shown);
    if (links_) {
      const int error = LinkNamed(dir, made, name);
      if (error == 0 || error == EEXIST || !IsUnsupported(error)) {
        ::unlinkat(dir, made.c_str(), 0);
        return error == 0 ? absl::OkStatus()
                          : WithDiskFull(ErrnoStatus(error, "link " + shown));
      }
      links_ = false;
    }
    if (renames_exclusively_) {
      if (::renameat2(dir, made.c_str(), dir, name.c_str(), RENAME_NOREPLACE) ==
          0) {
        return absl::OkStatus();
      }
      const int error = errno;
      if (!IsUnsupported(error)) {
        ::unlinkat(dir, made.c_str(), 0);
        return WithDiskFull(ErrnoStatus(error, "rename to " + shown));
      }
      renames_exclusively_ = false;
    }
    ::unlinkat(dir, made.c_str(), 0);
    return WriteNamed(dir, name, bytes, replaces, shown);
  }

  // Returns the error number of link(), or 0. Over NFS, the response may be
  // lost although the link was created; the file then has two names.
  static int LinkNamed(int dir, const std::string& from,
                       const std::string& to) {
    if (::linkat(dir, from.c_str(), dir, to.c_str(), 0) == 0) return 0;
    const int error = errno;
    struct stat info;
    const bool is_made =
        ::fstatat(dir, from.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        info.st_nlink == 2;
    return is_made ? 0 : error;
  }

  // True if the error means that a file system, possibly a remote one, does not
  // support the operation.
  static bool IsUnsupported(int error) {
    return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL ||
           error == EISDIR || error == EPERM || error == EMLINK ||
           error == ENOTTY;
  }

  const UniqueFd top_;
  const std::string path_;
  const std::string below_;
  // See FileAbilities.
  std::atomic<bool> makes_unnamed_;
  std::atomic<bool> links_;
  std::atomic<bool> renames_exclusively_;
  const std::string url_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenFileObjects(
    const std::string& top, std::string_view below,
    const FileAbilities& abilities) {
  UniqueFd fd(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open archive " + top);
  return std::make_unique<FileObjects>(std::move(fd), top, below, abilities);
}

}  // namespace msitd::storage
