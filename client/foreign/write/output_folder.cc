// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/output_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "protos/status/status.h"

namespace msitd::write {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr mode_t kFolderMode = 0777;
constexpr int kLeftPartialsMax = 10000;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool IsDots(const char* name) {
  return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

absl::StatusOr<bool> IsEmpty(int folder, const std::string& path) {
  const int fd = openat(folder, ".", kOpenFolder);
  DIR* entries = fd < 0 ? nullptr : fdopendir(fd);
  if (entries == nullptr) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return ErrnoStatus(error, "list " + path);
  }
  bool is_empty = true;
  while (is_empty) {
    const dirent* const entry = readdir(entries);
    if (entry == nullptr) break;
    is_empty = IsDots(entry->d_name);
  }
  closedir(entries);
  return is_empty;
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write " + path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

OutputFile::OutputFile(std::string path, int folder, std::string name,
                       std::string partial, bool replaces, UniqueFd fd)
    : path_(std::move(path)),
      folder_(folder),
      name_(std::move(name)),
      partial_(std::move(partial)),
      replaces_(replaces),
      fd_(std::move(fd)) {}

OutputFile::~OutputFile() {
  if (fd_.valid()) unlinkat(folder_.get(), partial_.c_str(), 0);
}

absl::Status OutputFile::Flush() {
  MSITD_RETURN_IF_ERROR(WriteAll(fd_.get(), buffer_, path_));
  flushed_ += buffer_.size();
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status OutputFile::Write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    MSITD_RETURN_IF_ERROR(Flush());
  }
  if (bytes.size() < kBufferBytes) {
    buffer_ += bytes;
    return absl::OkStatus();
  }
  MSITD_RETURN_IF_ERROR(WriteAll(fd_.get(), bytes, path_));
  flushed_ += bytes.size();
  return absl::OkStatus();
}

absl::Status OutputFile::WriteAt(uint64_t offset, std::string_view bytes) {
  if (offset >= flushed_) {
    buffer_.replace(offset - flushed_, bytes.size(), bytes);
    return absl::OkStatus();
  }
  MSITD_RETURN_IF_ERROR(Flush());
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(),
                                   static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write " + path_);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::ReadAt(uint64_t offset, std::span<std::byte> out) {
  MSITD_RETURN_IF_ERROR(Flush());
  while (!out.empty()) {
    const ssize_t got =
        pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read " + path_);
    if (got == 0) return absl::DataLossError(path_ + " ends early");
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Truncate(uint64_t size) {
  if (size >= flushed_) {
    buffer_.resize(size - flushed_);
    return absl::OkStatus();
  }
  buffer_.clear();
  const auto end = static_cast<off_t>(size);
  if (ftruncate(fd_.get(), end) != 0 || lseek(fd_.get(), end, SEEK_SET) < 0) {
    return ErrnoStatus(errno, "write " + path_);
  }
  flushed_ = size;
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() {
  MSITD_RETURN_IF_ERROR(Flush());
  return fsync(fd_.get()) == 0 ? absl::OkStatus()
                               : ErrnoStatus(errno, "write " + path_);
}

absl::Status OutputFile::Rename() {
  const int folder = folder_.get();
  if (replaces_) {
    return renameat(folder, partial_.c_str(), folder, name_.c_str()) == 0
               ? absl::OkStatus()
               : ErrnoStatus(errno, "rename to " + path_);
  }
  if (renameat2(folder, partial_.c_str(), folder, name_.c_str(),
                RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  // On a file system without that flag, a second name is created instead.
  if (errno != EINVAL ||
      linkat(folder, partial_.c_str(), folder, name_.c_str(), 0) != 0) {
    return ErrnoStatus(errno, "rename to " + path_);
  }
  unlinkat(folder, partial_.c_str(), 0);
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  MSITD_RETURN_IF_ERROR(Flush());
  if (time_ns_.has_value()) {
    constexpr int64_t kSecondNs = 1'000'000'000;
    const timespec time = {.tv_sec = *time_ns_ / kSecondNs,
                           .tv_nsec = *time_ns_ % kSecondNs};
    const std::array<timespec, 2> times = {time, time};
    // A file system that does not support such times is not a reason to lose
    // the file.
    (void)futimens(fd_.get(), times.data());
  }
  // Some file systems report a full disk only here.
  absl::Status status = close(fd_.release()) == 0
                            ? Rename()
                            : ErrnoStatus(errno, "close " + path_);
  if (!status.ok()) unlinkat(folder_.get(), partial_.c_str(), 0);
  return status;
}

absl::StatusOr<std::unique_ptr<OutputFolder>> OutputFolder::Open(
    const std::string& path, bool replaces) {
  if (mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "make folder " + path);
  }
  UniqueFd root(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return ErrnoStatus(errno, "open folder " + path);
  MSITD_ASSIGN_OR_RETURN(const bool is_empty, IsEmpty(root.get(), path));
  if (!is_empty && !replaces) {
    return MakeStatus(
        absl::StatusCode::kFailedPrecondition,
        "folder {} is not empty; to replace files in it, use --overwrite",
        path);
  }
  return std::unique_ptr<OutputFolder>(
      new OutputFolder(path, replaces, std::move(root)));
}

std::string OutputFolder::AbsolutePath() const {
  char* found = realpath(path_.c_str(), nullptr);
  std::string out = found == nullptr ? path_ : found;
  std::free(found);
  return out;
}

absl::Status OutputFolder::MakeFolder(std::string_view path, mode_t mode) {
  if (last_.valid() && path == last_path_) return absl::OkStatus();
  UniqueFd at(openat(root_.get(), ".", kOpenFolder));
  if (!at.valid()) return ErrnoStatus(errno, "open folder " + path_);
  for (size_t begin = 0; begin < path.size();) {
    const size_t slash = path.find('/', begin);
    const std::string name(path.substr(begin, slash - begin));
    if (mkdirat(at.get(), name.c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, fmt::format("make folder {}/{}", path_, path));
    }
    UniqueFd next(openat(at.get(), name.c_str(), kOpenFolder));
    if (!next.valid()) {
      return ErrnoStatus(errno, fmt::format("open folder {}/{}", path_, path));
    }
    at = std::move(next);
    begin = slash == std::string_view::npos ? path.size() : slash + 1;
  }
  last_path_ = path;
  last_ = std::move(at);
  made_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFolder::Create(
    std::string_view path, mode_t mode) {
  const size_t slash = path.rfind('/');
  const bool is_below = slash != std::string_view::npos;
  MSITD_RETURN_IF_ERROR(
      MakeFolder(is_below ? path.substr(0, slash) : "", kFolderMode));
  const std::string name(is_below ? path.substr(slash + 1) : path);
  UniqueFd folder(fcntl(last_.get(), F_DUPFD_CLOEXEC, 0));
  const std::string whole = fmt::format("{}/{}", path_, path);
  std::string partial;
  UniqueFd fd;
  // A process that was killed may have had the same number.
  for (int left = kLeftPartialsMax; left > 0; --left) {
    partial = fmt::format(".msitctl-{}-{}.partial", getpid(), created_count_++);
    fd = UniqueFd(openat(folder.get(), partial.c_str(),
                         O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         mode));
    if (fd.valid() || errno != EEXIST) break;
  }
  if (!fd.valid()) return ErrnoStatus(errno, "create " + whole);
  const bool replaces =
      replaces_ && made_.insert(std::hash<std::string>()(name)).second;
  return std::unique_ptr<OutputFile>(new OutputFile(
      whole, folder.release(), name, partial, replaces, std::move(fd)));
}

}  // namespace msitd::write
