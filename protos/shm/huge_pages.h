// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msitd::shm {

// Returns whether the system provides huge pages for shared memory that
// requests them (MappedRegion::AskForHugePages). `sysfs` is the mount point of
// sysfs.
bool HasHugePages(const std::string& sysfs = "/sys");

}  // namespace msitd::shm
