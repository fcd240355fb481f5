// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/sealed_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace msitd::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

UniqueFd MakeSealedMemory(const char* name, uint64_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fd;
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    fd.reset();
  }
  return fd;
}

std::optional<uint64_t> SealedMemorySize(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
  // Memory of huge pages also has seals, but it can run out when a page is
  // first touched.
  struct statfs file_system;
  if (::fstatfs(fd, &file_system) != 0 ||
      static_cast<uint64_t>(file_system.f_type) != TMPFS_MAGIC) {
    return std::nullopt;
  }
  struct stat info;
  if (::fstat(fd, &info) != 0 || info.st_size < 0) return std::nullopt;
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace msitd::shm
