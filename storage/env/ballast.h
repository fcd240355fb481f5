// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/env/env.h"

namespace msitd::storage {

// Reserves room on the disk: a file of blocks that nobody reads. The file is
// removed when the disk is full and something must be written all the same.
// Where the file system cannot reserve blocks there is no file, and Take
// succeeds while that much room is free.
//
// Thread-safe. Blocks on the disk.
class Ballast {
 public:
  // A Take that cannot get all of the ballast leaves this much free for others.
  static constexpr uint64_t kLeaveBytes = uint64_t{1} << 20;

  // `bytes` is its length once it is whole; the file is in `directory`.
  Ballast(Env& env, std::string directory, uint64_t bytes)
      : env_(env),
        directory_(std::move(directory)),
        path_(directory_ + "/ballast"),
        bytes_(bytes) {}

  // Takes all that is missing if `spare_bytes` stay free then; otherwise as
  // much as there is.
  //
  // Errors: RESOURCE_EXHAUSTED if it is not whole; those of the file system.
  absl::Status Take(uint64_t spare_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Gives the room back; false if there was none to give.
  bool Release() ABSL_LOCKS_EXCLUDED(mu_);

  bool is_whole() const { return is_whole_.load(std::memory_order_acquire); }
  uint64_t bytes() const { return bytes_; }

 private:
  // Grows the file from `held` to `bytes`. After an error the file holds what
  // it held before.
  absl::Status Grow(uint64_t held, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<uint64_t> Allocated() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Env& env_;
  const std::string directory_;
  const std::string path_;
  const uint64_t bytes_;

  Mutex mu_;
  bool is_possible_ ABSL_GUARDED_BY(mu_) = true;
  // Written under mu_; is_whole() pairs its acquire with those releases.
  std::atomic<bool> is_whole_ = false;
};

}  // namespace msitd::storage
