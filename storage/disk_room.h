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

// Turns a failure of the disk or the index into the status that a producer
// gets: DISK_FULL if it is RESOURCE_EXHAUSTED, else STORAGE_FAILED.
absl::Status ToAppendStatus(const absl::Status& status);

// Makes the ballast of a store whose directory exists. Gives it up at once if
// the disk has less free room than the ballast is long.
std::unique_ptr<Ballast> MakeBallast(const StoreOptions& options, Env& env);

// Room on the disk, and who gets it once there is little. Thread-safe.
class DiskRoom {
 public:
  // `env` and `ballast` outlive it. `directory` is on the disk in question.
  DiskRoom(Env& env, Ballast& ballast, std::string directory)
      : env_(env), ballast_(ballast), directory_(std::move(directory)) {}

  // Takes back as much of the ballast as the disk has room for.
  void KeepBallast();

  // RESOURCE_EXHAUSTED unless the ballast is whole and `bytes` are free.
  absl::Status EnsureFree(uint64_t bytes);

  // The same for a small record that is not urgent. The status is one of
  // ToAppendStatus.
  absl::Status EnsureForRecord();

 private:
  Env& env_;
  Ballast& ballast_;
  const std::string directory_;
};

}  // namespace msitd::storage
