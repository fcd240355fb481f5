// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {

// Prefix of the names of files that are being written.
inline constexpr std::string_view kTemporaryPrefix = "tmp-";

// Operations to try on the file system. An operation that it refuses is not
// tried again; tests disable some to exercise the others.
struct FileAbilities {
  bool makes_unnamed = true;        // open(O_TMPFILE)
  bool links = true;                // link()
  bool renames_exclusively = true;  // renameat2(RENAME_NOREPLACE)
};

// Opens the objects in folder `below` of directory `top`, which must exist;
// folders below it are created on demand. Symbolic links below `top` are not
// followed.
//
// An object is written to an unnamed file (O_TMPFILE) and linked once it is
// durable, so that a crash leaves no remains. NFS, CIFS and most FUSE file
// systems do not support unnamed files. On these it is written under a name
// with kTemporaryPrefix, and then linked or renamed; a crash may leave such a
// file, which `run archive --prune` removes. On a file system that can neither
// link nor rename exclusively, the object itself is created exclusively. A
// crash may then leave a partial object, whose hash does not match.
//
// Objects and folders are accessible to their owner only. In a folder with the
// setgid bit they are also accessible to its group, for archives that users
// share on purpose.
//
// Errors: NOT_FOUND or PERMISSION_DENIED for `top`.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenFileObjects(
    const std::string& top, std::string_view below,
    const FileAbilities& abilities = {});

}  // namespace msitd::storage
