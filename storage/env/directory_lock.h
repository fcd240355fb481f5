// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::storage {

// Holds the file LOCK of a store directory, so that two processes never write
// one store. The lock ends with the object or with the process.
//
// Any process that can open LOCK can hold it, and so keep the daemon from
// starting, and any process that can enter the directories with the tensors can
// read them without an audit line. An exclusive lock therefore makes LOCK,
// index/ and segments/ accessible to their owner only, and the directory itself
// if it has nothing but a store. A directory with other files in it, such as
// /tmp, keeps its permissions: other users need them.
class DirectoryLock {
 public:
  enum class Mode {
    kExclusive,  // The daemon: nobody else.
    kShared,     // Readers: any number of them, no daemon.
  };

  // If the mode is exclusive, creates a missing file, and takes permissions of
  // group and others away, for instance those that an older version granted. A
  // directory of another user, such as a mounted volume, keeps its permissions.
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
