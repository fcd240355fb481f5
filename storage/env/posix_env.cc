// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "protos/base/limits.h"
#include "protos/os/unique_fd.h"
#include "protos/status/status.h"
#include "storage/env/env.h"

namespace msitd::storage {
namespace {

constexpr mode_t kFileMode = 0600;
constexpr mode_t kDirectoryMode = 0700;
// Below IOV_MAX; a frame is two pieces.
constexpr size_t kPiecesPerCall = 512;
// Unit of st_blocks, independent of the block size of the file system.
constexpr uint64_t kStatBlockBytes = 512;

// Some file systems accept the flag and refuse the first transfer. True if the
// descriptor had the flag and is buffered now, so that a retry makes sense.
bool LeaveDirectIo(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0 &&
         ::fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

absl::Status FsyncDirectory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open directory " + path);
  if (::fsync(fd.get()) != 0) {
    return ErrnoStatus(errno, "sync directory " + path);
  }
  return absl::OkStatus();
}

absl::StatusOr<struct statvfs> FileSystemOf(const std::string& path) {
  struct statvfs info;
  if (::statvfs(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "stat file system of " + path);
  }
  return info;
}

std::string ParentOf(const std::string& path) {
  std::filesystem::path clean(path);
  if (!clean.has_filename()) clean = clean.parent_path();
  const std::string parent = clean.parent_path().string();
  return parent.empty() ? "." : parent;
}

class PosixFile final : public File {
 public:
  PosixFile(UniqueFd fd, bool is_durable)
      : fd_(std::move(fd)), is_durable_(is_durable) {}

  absl::Status Write(
      uint64_t offset,
      std::span<const std::span<const std::byte>> pieces) override {
    while (!pieces.empty()) {
      const size_t count = std::min(pieces.size(), kPiecesPerCall);
      MSITD_RETURN_IF_ERROR(WriteSome(offset, pieces.first(count)));
      for (const auto piece : pieces.first(count)) offset += piece.size();
      pieces = pieces.subspan(count);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Read(uint64_t offset,
                                std::span<std::byte> out) override {
    uint64_t done = 0;
    while (done < out.size()) {
      const ssize_t count =
          ::pread(fd_.get(), out.data() + done, out.size() - done,
                  static_cast<off_t>(offset + done));
      if (count < 0) {
        const int error = errno;
        if (error == EINTR || (error == EINVAL && LeaveDirectIo(fd_.get()))) {
          continue;
        }
        return ErrnoStatus(error, "read");
      }
      done += static_cast<uint64_t>(count);
      // A count that is not a multiple of a page means the end of the file.
      // Continuing at such an offset would fail with O_DIRECT.
      if (count == 0 || done % kChunkAlignment != 0) break;
    }
    return done;
  }

  absl::Status Sync() override {
    if (!is_durable_) return absl::OkStatus();
    return ::fdatasync(fd_.get()) == 0 ? absl::OkStatus()
                                       : ErrnoStatus(errno, "sync");
  }

  absl::Status Preallocate(uint64_t bytes) override {
    while (::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0,
                       static_cast<off_t>(bytes)) != 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error == EOPNOTSUPP || error == ENOSYS) {
        return absl::UnimplementedError("the file system reserves no room");
      }
      // The call may have reserved a part of the space, which is useless.
      struct stat info;
      if (::fstat(fd_.get(), &info) == 0) Truncate(info.st_size).IgnoreError();
      return ErrnoStatus(error, "preallocate");
    }
    return absl::OkStatus();
  }

  absl::Status Truncate(uint64_t bytes) override {
    while (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
      if (errno != EINTR) return ErrnoStatus(errno, "truncate");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "stat");
    return static_cast<uint64_t>(info.st_size);
  }

  absl::Status PunchHole(uint64_t offset, uint64_t bytes) override {
    while (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(offset),
                       static_cast<off_t>(bytes)) != 0) {
      if (errno == EINTR) continue;
      if (errno == EOPNOTSUPP || errno == ENOSYS) {
        return absl::UnimplementedError("the file system has no holes");
      }
      return ErrnoStatus(errno, "punch hole");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> AllocatedBytes() override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "stat");
    return static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
  }

 private:
  // Writes at most kPiecesPerCall pieces, with as many calls as necessary.
  absl::Status WriteSome(uint64_t offset,
                         std::span<const std::span<const std::byte>> pieces) {
    iovec vectors[kPiecesPerCall];
    for (size_t i = 0; i < pieces.size(); ++i) {
      vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    size_t first = 0;
    while (true) {
      while (first < pieces.size() && vectors[first].iov_len == 0) ++first;
      if (first == pieces.size()) return absl::OkStatus();
      const ssize_t count = ::pwritev(fd_.get(), vectors + first,
                                      static_cast<int>(pieces.size() - first),
                                      static_cast<off_t>(offset));
      if (count < 0) {
        const int error = errno;
        if (error == EINTR || (error == EINVAL && LeaveDirectIo(fd_.get()))) {
          continue;
        }
        return ErrnoStatus(error, "write");
      }
      offset += static_cast<uint64_t>(count);
      auto rest = static_cast<size_t>(count);
      while (rest > 0) {
        const size_t step = std::min(rest, vectors[first].iov_len);
        vectors[first].iov_base =
            static_cast<std::byte*>(vectors[first].iov_base) + step;
        vectors[first].iov_len -= step;
        rest -= step;
        if (vectors[first].iov_len == 0) ++first;
      }
    }
  }

  UniqueFd fd_;
  const bool is_durable_;
};

absl::StatusOr<std::unique_ptr<File>> OpenFile(const std::string& path,
                                               int flags, bool direct,
                                               bool is_durable) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, kFileMode));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  // O_DIRECT is set after the open, because an open with O_DIRECT that fails
  // may already have created the file. If it is refused, the descriptor stays
  // buffered.
  if (direct) {
    const int status_flags = ::fcntl(fd.get(), F_GETFL);
    if (status_flags >= 0) ::fcntl(fd.get(), F_SETFL, status_flags | O_DIRECT);
  }
  return std::make_unique<PosixFile>(std::move(fd), is_durable);
}

class PosixEnv final : public Env {
 public:
  explicit PosixEnv(bool is_durable) : is_durable_(is_durable) {}

  bool is_durable() override { return is_durable_; }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path,
                                               bool direct) override {
    MSITD_ASSIGN_OR_RETURN(
        std::unique_ptr<File> file,
        OpenFile(path, O_RDWR | O_CREAT | O_EXCL, direct, is_durable_));
    MSITD_RETURN_IF_ERROR(SyncDirectory(ParentOf(path)));
    return file;
  }

  absl::StatusOr<std::unique_ptr<File>> OpenForRead(const std::string& path,
                                                    bool direct) override {
    return OpenFile(path, O_RDONLY, direct, is_durable_);
  }

  absl::StatusOr<std::unique_ptr<File>> OpenForWrite(const std::string& path,
                                                     bool direct) override {
    return OpenFile(path, O_RDWR, direct, is_durable_);
  }

  absl::Status CreateDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), kDirectoryMode) != 0) {
      const int error = errno;
      struct stat info;
      const bool is_there = error == EEXIST &&
                            ::stat(path.c_str(), &info) == 0 &&
                            S_ISDIR(info.st_mode);
      if (!is_there) return ErrnoStatus(error, "make directory " + path);
      // The process that created the directory may have ended before its name
      // was durable.
    }
    return SyncDirectory(ParentOf(path));
  }

  absl::Status SyncDirectory(const std::string& path) override {
    return is_durable_ ? FsyncDirectory(path) : absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(
        ::opendir(directory.c_str()), &::closedir);
    if (stream == nullptr) {
      return ErrnoStatus(errno, "open directory " + directory);
    }
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      // The stream is used by this thread only, which is all that readdir
      // requires.
      const dirent* entry = ::readdir(stream.get());  // NOLINT
      if (entry == nullptr) break;
      const std::string_view name(entry->d_name);
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return ErrnoStatus(errno, "read directory " + directory);
    return names;
  }

  absl::Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) {
      return ErrnoStatus(errno, "remove " + path);
    }
    return SyncDirectory(ParentOf(path));
  }

  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    MSITD_ASSIGN_OR_RETURN(const struct statvfs info, FileSystemOf(path));
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

  absl::StatusOr<uint64_t> CapacityBytes(const std::string& path) override {
    MSITD_ASSIGN_OR_RETURN(const struct statvfs info, FileSystemOf(path));
    return static_cast<uint64_t>(info.f_blocks) * info.f_frsize;
  }

  int64_t NowNs() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  int64_t BootNs() override {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }

  std::string BootId() override {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
  }

 private:
  const bool is_durable_;
};

}  // namespace

Env& Env::Posix() {
  static PosixEnv* const env = new PosixEnv(/*is_durable=*/true);
  return *env;
}

Env& Env::Fleeting() {
  static PosixEnv* const env = new PosixEnv(/*is_durable=*/false);
  return *env;
}

}  // namespace msitd::storage
