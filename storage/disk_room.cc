// SPDX-License-Identifier: Apache-2.0
#include "storage/disk_room.h"

#include <algorithm>

#include "protos/base/limits.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "storage/env/logger.h"

namespace msitd::storage {
namespace {

// The index must always be able to write this much. This covers twice its
// contents in memory, because the same amount may be added while that is
// written. It also covers a manifest, a log and the tables of a deletion.
constexpr uint64_t kBallastBaseBytes = uint64_t{8} << 20;
constexpr uint64_t kBallastBytesMax = uint64_t{512} << 20;
// The ballast is at most this fraction of the disk.
constexpr uint64_t kBallastPart = 8;

// Small records are accepted while this much is free. This is less than the
// requirement of Probe, so that the state does not oscillate.
constexpr uint64_t kRecordRoomBytes = uint64_t{4} << 20;
static_assert(kRecordRoomBytes < ChunkLog::kProbeRoomBytes);

absl::Status LittleRoom(uint64_t free) {
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "the disk has {} bytes left", free);
}

}  // namespace

absl::Status ToAppendStatus(const absl::Status& status) {
  const bool is_full = absl::IsResourceExhausted(status);
  return WithReason(
      absl::Status(is_full ? absl::StatusCode::kResourceExhausted
                           : absl::StatusCode::kUnavailable,
                   status.message()),
      is_full ? ErrorReason::kDiskFull : ErrorReason::kStorageFailed);
}

std::unique_ptr<Ballast> MakeBallast(const StoreOptions& options, Env& env) {
  const uint64_t capacity =
      env.CapacityBytes(options.directory).value_or(UINT64_MAX);
  const uint64_t bytes = std::min(
      {kBallastBaseBytes + 2 * options.index_write_buffer_bytes,
       kBallastBytesMax, AlignUp(capacity / kBallastPart, kChunkAlignment)});
  auto ballast = std::make_unique<Ballast>(env, options.directory, bytes);
  const uint64_t free = env.FreeBytes(options.directory).value_or(bytes);
  if (free < bytes && ballast->Release()) {
    StorageLogger()->warn("the disk has {} bytes left: the ballast goes", free);
  }
  return ballast;
}

void DiskRoom::KeepBallast() {
  if (!ballast_.is_whole()) {
    ballast_.Take(ChunkLog::kProbeRoomBytes).IgnoreError();
  }
}

absl::Status DiskRoom::EnsureFree(uint64_t bytes) {
  if (!ballast_.is_whole()) {
    MSITD_RETURN_IF_ERROR(ballast_.Take(ChunkLog::kProbeRoomBytes));
  }
  MSITD_ASSIGN_OR_RETURN(const uint64_t free, env_.FreeBytes(directory_));
  return free < bytes ? LittleRoom(free) : absl::OkStatus();
}

absl::Status DiskRoom::EnsureForRecord() {
  const absl::Status status = EnsureFree(kRecordRoomBytes);
  return status.ok() ? status : ToAppendStatus(status);
}

}  // namespace msitd::storage
