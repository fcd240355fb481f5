// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "storage/env/ballast.h"
#include "storage/env/env.h"
#include "storage/store.h"

namespace msitd::storage {

// Converts a failure of the disk or the index to the status that a producer
// receives: DISK_FULL for RESOURCE_EXHAUSTED, otherwise STORAGE_FAILED.
absl::Status ToAppendStatus(const absl::Status& status);

// Creates the ballast of a store whose directory exists. Releases it
// immediately if the disk has less free space than the size of the ballast.
std::unique_ptr<Ballast> MakeBallast(const StoreOptions& options, Env& env);

// Manages free space on the disk and decides who may use it when it is scarce.
// Thread-safe.
class DiskRoom {
 public:
  // `env` and `ballast` must outlive this object. `directory` is on the disk in
  // question.
  DiskRoom(Env& env, Ballast& ballast, std::string directory)
      : env_(env), ballast_(ballast), directory_(std::move(directory)) {}

  // Restores as much of the ballast as the disk has room for.
  void KeepBallast();

  // Returns RESOURCE_EXHAUSTED unless the ballast is complete and `bytes` bytes
  // are free.
  absl::Status EnsureFree(uint64_t bytes);

  // As EnsureFree, for a small record that is not urgent. The status is that of
  // ToAppendStatus.
  absl::Status EnsureForRecord();

 private:
  Env& env_;
  Ballast& ballast_;
  const std::string directory_;
};

}  // namespace msitd::storage
