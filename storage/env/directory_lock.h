// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::storage {

// Holds the file LOCK of a store directory, so that no two processes write to
// one store. The lock is released with the object or at the end of the process.
//
// A process that can open LOCK can hold it and prevent the daemon from
// starting. A process that can enter the directories with the tensors can read
// them without an entry in the audit log. An exclusive lock therefore makes
// LOCK, index/ and segments/ accessible to their owner only, and also the
// directory itself if it has nothing but a store. A directory with other files
// in it, such as /tmp, keeps its permissions, because other users need them.
class DirectoryLock {
 public:
  enum class Mode {
    kExclusive,  // For the daemon; excludes all others.
    kShared,     // For readers: any number of them, but no daemon.
  };

  // In exclusive mode, creates a missing file, and removes permissions of group
  // and others, such as those that an older version granted. A directory that
  // belongs to another user, such as a mounted volume, keeps its permissions.
  //
  // Errors: FAILED_PRECONDITION if it is held in a mode that excludes this one;
  // those of the file system.
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& directory,
                                               Mode mode);

 private:
  explicit DirectoryLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace msitd::storage
