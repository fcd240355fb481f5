// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace msitd::access {

// The numbers that the kernel reports for users and groups without a number in
// the user namespace of this process. All of them share these two numbers, so
// neither identifies anybody: with `PrivateUsers=yes` in a unit, every user of
// the machine except root and the daemon's own would be one and the same owner.
//
// In the initial user namespace every user has a number; there the same number
// belongs to the user `nobody`, who is a caller like others, and nothing is
// set.
struct OverflowIds {
  std::optional<uid_t> user;
  std::optional<gid_t> group;
  // True if `user` is also the number of a user in the namespace, as in a
  // container whose map covers 0 to 65535.
  bool user_is_mapped = false;

  // Reads those of the process whose folder of procfs is `process`, with the
  // numbers of `kernel`. A file that cannot be read counts as a namespace
  // without all users, and as the number 65534.
  static OverflowIds Read(const std::string& process = "/proc/self",
                          const std::string& kernel = "/proc/sys/kernel");
};

}  // namespace msitd::access
