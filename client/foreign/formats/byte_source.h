// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::formats {

// Bytes with a fixed length and random access. Thread-compatible.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual uint64_t size() const = 0;

  // Fills `out` with the bytes from `offset`. Returns DATA_LOSS if there are
  // fewer bytes, which happens if another process truncates a file.
  virtual absl::Status ReadAt(uint64_t offset,
                              std::span<std::byte> out) const = 0;

  // Returns true if all of these bytes exist.
  bool Has(uint64_t offset, uint64_t bytes) const {
    return offset <= size() && bytes <= size() - offset;
  }

  // Like ReadAt, but into a string. Returns DATA_LOSS, before memory is
  // allocated, if not all bytes exist.
  absl::StatusOr<std::string> ReadText(uint64_t offset, uint64_t bytes) const;

  // Reads a little-endian number. Returns DATA_LOSS if not all of its bytes
  // exist.
  template <typename Number>
  absl::StatusOr<Number> ReadNumber(uint64_t offset) const {
    Number number = 0;
    const absl::Status read =
        ReadAt(offset, std::as_writable_bytes(std::span(&number, 1)));
    if (!read.ok()) return read;
    return number;
  }
};

// A regular file. Its length and its first bytes are those at the time when it
// was opened.
class FileSource final : public ByteSource {
 public:
  // Returns INVALID_ARGUMENT if the path is not a regular file, because opening
  // a pipe could wait.
  static absl::StatusOr<std::unique_ptr<FileSource>> Open(
      const std::string& path);

  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

  // The file descriptor. Owned by this object.
  int fd() const { return fd_.get(); }
  // The device and the inode.
  using Id = std::pair<uint64_t, uint64_t>;
  Id id() const { return id_; }

 private:
  // Readers request the header of a file in many small parts.
  static constexpr size_t kHeadBytes = 1024;

  FileSource(UniqueFd fd, uint64_t size, Id id)
      : fd_(std::move(fd)), size_(size), id_(id) {}
  absl::Status ReadFile(uint64_t offset, std::span<std::byte> out) const;

  const UniqueFd fd_;
  const uint64_t size_;
  const Id id_;
  std::array<std::byte, kHeadBytes> head_;
  size_t head_bytes_ = 0;
};

// A regular file that is open only during each read, for files of which there
// are more than a process may have open. Reading one that was replaced in the
// meantime is DATA_LOSS.
class ReopenedFileSource final : public ByteSource {
 public:
  // `file` was opened at `path`. It is not referred to afterwards.
  ReopenedFileSource(std::string path, const FileSource& file)
      : path_(std::move(path)), size_(file.size()), id_(file.id()) {}

  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

 private:
  const std::string path_;
  const uint64_t size_;
  const FileSource::Id id_;
};

// Bytes in memory.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}

  uint64_t size() const override { return bytes_.size(); }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;

 private:
  const std::string bytes_;
};

}  // namespace msitd::formats
