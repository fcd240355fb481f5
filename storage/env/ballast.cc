// SPDX-License-Identifier: Apache-2.0
#include "storage/env/ballast.h"

#include <algorithm>
#include <memory>

#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::storage {

absl::StatusOr<uint64_t> Ballast::Allocated() {
  const auto file = env_.OpenForRead(path_, /*direct=*/false);
  if (absl::IsNotFound(file.status())) return 0;
  if (!file.ok()) return file.status();
  return (*file)->AllocatedBytes();
}

absl::Status Ballast::Grow(uint64_t held, uint64_t bytes) {
  auto file = env_.OpenForWrite(path_, /*direct=*/false);
  if (absl::IsNotFound(file.status())) {
    file = env_.Create(path_, /*direct=*/false);
  }
  if (!file.ok()) return file.status();
  // If growing fails, it frees all blocks after the end of the file. With the
  // end at `held`, the blocks held before are kept.
  MSITD_RETURN_IF_ERROR((*file)->Truncate(held));
  return (*file)->Preallocate(bytes);
}

absl::Status Ballast::Take(uint64_t spare_bytes) {
  const MutexLock lock(mu_);
  uint64_t held = 0;
  if (is_possible_) {
    MSITD_ASSIGN_OR_RETURN(held, Allocated());
  }
  is_whole_.store(held >= bytes_, std::memory_order_release);
  if (held >= bytes_) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(const uint64_t free, env_.FreeBytes(directory_));
  const bool is_enough = free >= bytes_ - held + spare_bytes;
  const uint64_t target =
      is_enough ? bytes_
                : std::min(bytes_, held + free - std::min(free, kLeaveBytes));
  if (is_possible_ && target > held) {
    const absl::Status grown = Grow(held, target);
    if (grown.ok() && is_enough) {
      is_whole_.store(true, std::memory_order_release);
      return grown;
    }
    if (absl::IsUnimplemented(grown)) {
      is_possible_ = false;
      env_.Remove(path_).IgnoreError();
    } else if (!grown.ok() && !absl::IsResourceExhausted(grown)) {
      return Annotate(grown, "take ballast");
    }
  }
  if (!is_possible_ && is_enough) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "the disk has {} bytes left", free);
}

bool Ballast::Release() {
  const MutexLock lock(mu_);
  is_whole_.store(false, std::memory_order_release);
  return is_possible_ && env_.Remove(path_).ok();
}

}  // namespace msitd::storage
