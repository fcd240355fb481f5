// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {

// Begins the names of files that are being written.
inline constexpr std::string_view kTemporaryPrefix = "tmp-";

// What is tried on the file system. What it refuses is not tried again; tests
// leave things out to meet the others.
struct FileAbilities {
  bool makes_unnamed = true;        // open(O_TMPFILE)
  bool links = true;                // link()
  bool renames_exclusively = true;  // renameat2(RENAME_NOREPLACE)
};

// Opens the objects in folder `below` of directory `top`, which is there;
// folders below it are made when they are needed. No symbolic link below `top`
// is followed.
//
// An object is written under no name (O_TMPFILE) and linked once it is durable,
// so a crash leaves nothing. NFS, CIFS and most of FUSE have no such files:
// there it is written under a name with kTemporaryPrefix, which a crash leaves
// and `run archive --prune` removes, and then linked or renamed. A file system
// that can neither link nor rename exclusively creates the object itself
// exclusively; then a crash may leave a part of it, which no hash fits.
//
// Objects and folders are accessible to their owner only. In a folder with the
// setgid bit they are accessible to its group as well, for archives that users
// share on purpose.
//
// Errors: NOT_FOUND or PERMISSION_DENIED for `top`.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenFileObjects(
    const std::string& top, std::string_view below,
    const FileAbilities& abilities = {});

}  // namespace msitd::storage
