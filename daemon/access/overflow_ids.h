// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace msitd::access {

// The ids that the kernel reports for users and groups that have no id in the
// user namespace of this process. All such users share one id, and all such
// groups another, so these ids identify nobody. With `PrivateUsers=yes` in a
// unit, for example, every user of the machine except root and the daemon's own
// user would be treated as the same owner.
//
// In the initial user namespace every user has an id, and the overflow id
// belongs to the user `nobody`, who is a regular caller. Both fields are then
// empty.
struct OverflowIds {
  std::optional<uid_t> user;
  std::optional<gid_t> group;
  // True if `user` is also the id of a user in the namespace, as in a container
  // whose map covers 0 to 65535.
  bool user_is_mapped = false;

  // Reads the ids of the process whose procfs folder is `process`, using the
  // overflow ids in the folder `kernel`. If a file cannot be read, the
  // namespace is assumed not to contain all users, and the id is assumed to be
  // 65534.
  static OverflowIds Read(const std::string& process = "/proc/self",
                          const std::string& kernel = "/proc/sys/kernel");
};

}  // namespace msitd::access
