// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "protos/status/status.h"

namespace msitd::formats {
namespace {

absl::Status TooShort(uint64_t offset, uint64_t bytes) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "it ends before byte {} with {} bytes missing",
                    offset + bytes, bytes);
}

}  // namespace

absl::StatusOr<std::string> ByteSource::ReadText(uint64_t offset,
                                                 uint64_t bytes) const {
  if (!Has(offset, bytes)) return TooShort(offset, bytes);
  std::string out(bytes, '\0');
  MSITD_RETURN_IF_ERROR(
      ReadAt(offset, std::as_writable_bytes(std::span<char>(out))));
  return out;
}

absl::StatusOr<std::unique_ptr<FileSource>> FileSource::Open(
    const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "open");
  struct stat about = {};
  if (::fstat(fd.get(), &about) != 0) return ErrnoStatus(errno, "stat");
  if (!S_ISREG(about.st_mode)) {
    return absl::InvalidArgumentError("it is not a regular file");
  }
  const auto size = static_cast<uint64_t>(about.st_size);
  std::unique_ptr<FileSource> out(
      new FileSource(std::move(fd), size, {about.st_dev, about.st_ino}));
  const auto head_bytes =
      static_cast<size_t>(std::min<uint64_t>(size, kHeadBytes));
  // An error here occurs again when the bytes are requested.
  if (out->ReadFile(0, std::span(out->head_).first(head_bytes)).ok()) {
    out->head_bytes_ = head_bytes;
  }
  return out;
}

absl::Status FileSource::ReadAt(uint64_t offset,
                                std::span<std::byte> out) const {
  if (!Has(offset, out.size())) return TooShort(offset, out.size());
  if (offset + out.size() > head_bytes_) return ReadFile(offset, out);
  if (!out.empty()) {
    std::memcpy(out.data(), head_.data() + offset, out.size());
  }
  return absl::OkStatus();
}

absl::Status FileSource::ReadFile(uint64_t offset,
                                  std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count =
        ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read");
    if (count == 0) return TooShort(offset, out.size());
    out = out.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status ReopenedFileSource::ReadAt(uint64_t offset,
                                        std::span<std::byte> out) const {
  MSITD_ASSIGN_OR_RETURN(const auto file, FileSource::Open(path_));
  if (file->id() != id_ || file->size() != size_) {
    return absl::DataLossError("it was replaced while it was read");
  }
  return file->ReadAt(offset, out);
}

absl::Status MemorySource::ReadAt(uint64_t offset,
                                  std::span<std::byte> out) const {
  if (!Has(offset, out.size())) return TooShort(offset, out.size());
  if (!out.empty()) {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  return absl::OkStatus();
}

}  // namespace msitd::formats
