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

// Reserves space on the disk with a file of allocated blocks that is never
// read. The file is removed when the disk is full and something must be written
// regardless. If the file system cannot reserve blocks, there is no file, and
// Take succeeds while that much space is free.
//
// Thread-safe. Blocks on the disk.
class Ballast {
 public:
  // Free space that a Take leaves for others if it cannot get the whole
  // ballast.
  static constexpr uint64_t kLeaveBytes = uint64_t{1} << 20;

  // `bytes` is the length of the complete file, which is created in
  // `directory`.
  Ballast(Env& env, std::string directory, uint64_t bytes)
      : env_(env),
        directory_(std::move(directory)),
        path_(directory_ + "/ballast"),
        bytes_(bytes) {}

  // Reserves the whole missing part if `spare_bytes` remain free after that,
  // otherwise as much as possible.
  //
  // Errors: RESOURCE_EXHAUSTED if the ballast is not complete; those of the
  // file system.
  absl::Status Take(uint64_t spare_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Frees the reserved space; false if there was none.
  bool Release() ABSL_LOCKS_EXCLUDED(mu_);

  bool is_whole() const { return is_whole_.load(std::memory_order_acquire); }
  uint64_t bytes() const { return bytes_; }

 private:
  // Grows the file from `held` to `bytes`. After an error the file has its
  // previous size.
  absl::Status Grow(uint64_t held, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<uint64_t> Allocated() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Env& env_;
  const std::string directory_;
  const std::string path_;
  const uint64_t bytes_;

  Mutex mu_;
  bool is_possible_ ABSL_GUARDED_BY(mu_) = true;
  // Written under mu_ with release order, which pairs with the acquire in
  // is_whole().
  std::atomic<bool> is_whole_ = false;
};

}  // namespace msitd::storage
