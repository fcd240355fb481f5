// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::storage {

// Holds the file LOCK of a store directory, so that two processes never write
// one store. The lock ends with the object or with the process.
class DirectoryLock {
 public:
  enum class Mode {
    kExclusive,  // The daemon: nobody else.
    kShared,     // Readers: any number of them, no daemon.
  };

  // Makes the file if the mode is exclusive and it is not there.
  //
  // Errors: FAILED_PRECONDITION if it is held in a mode that excludes this
  // one; those of the file system.
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& directory,
                                               Mode mode);

 private:
  explicit DirectoryLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace msitd::storage
