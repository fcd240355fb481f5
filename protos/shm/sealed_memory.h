// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "protos/os/unique_fd.h"

// Memory that two processes share and that neither can resize. Standard library
// only.
namespace msitd::shm {

// Owns one shared mapping of a descriptor. The descriptor may be closed while
// the mapping exists.
class MappedRegion {
 public:
  MappedRegion() = default;

  // The mapping is invalid, with errno set, if mmap fails. `protection` is as
  // for mmap.
  MappedRegion(int fd, uint64_t bytes, int protection)
      : data_(::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0)),
        bytes_(bytes) {}
  MappedRegion(MappedRegion&& other) noexcept
      : data_(std::exchange(other.data_, MAP_FAILED)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  MappedRegion& operator=(MappedRegion&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedRegion() {
    if (valid()) ::munmap(data_, bytes_);
  }

  bool valid() const { return data_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  uint64_t size() const { return bytes_; }

  // Requests huge pages for pages that are touched from now on. Has no effect
  // if the system does not provide huge pages for shared memory; see
  // huge_pages.h. Huge pages are swapped, sealed and freed like other pages.
  void AskForHugePages() const { ::madvise(data_, bytes_, MADV_HUGEPAGE); }

  // Excludes the mapping from child processes that this process forks.
  void KeepFromChildren() const { ::madvise(data_, bytes_, MADV_DONTFORK); }

 private:
  void* data_ = MAP_FAILED;
  uint64_t bytes_ = 0;
};

// Creates a memfd of `bytes` zeros that can neither shrink nor grow; /proc
// shows `name`. Returns an invalid descriptor, with errno set, on failure.
UniqueFd MakeSealedMemory(const char* name, uint64_t bytes);

// Returns the size of the memory of `fd`; nothing if it is not a memfd of
// ordinary pages with a sealed size. Only such memory is safe to map, because
// the other process cannot remove pages from it.
std::optional<uint64_t> SealedMemorySize(int fd);

}  // namespace msitd::shm
