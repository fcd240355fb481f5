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

// What a producer is told of a failure of the disk or the index.
absl::Status ToAppendStatus(const absl::Status& status);

// Makes the ballast of a store whose directory is there, and gives it up if the
// disk has less room than that.
std::unique_ptr<Ballast> MakeBallast(const StoreOptions& options, Env& env);

// Room on the disk, and who gets it once there is little. Thread-safe.
class DiskRoom {
 public:
  // Both outlive it. `directory` is on the disk.
  DiskRoom(Env& env, Ballast& ballast, std::string directory)
      : env_(env), ballast_(ballast), directory_(std::move(directory)) {}

  // Takes as much of the ballast again as there is room for.
  void KeepBallast();

  // RESOURCE_EXHAUSTED unless the ballast is whole and `bytes` are free.
  absl::Status EnsureFree(uint64_t bytes);

  // The same for something small that is not urgent; a status for the caller.
  absl::Status EnsureForRecord();

 private:
  Env& env_;
  Ballast& ballast_;
  const std::string directory_;
};

}  // namespace msitd::storage
