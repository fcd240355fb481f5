// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace msitd::shm {

// Says whether the system gives huge pages to shared memory that asks for them
// (MappedRegion::AskForHugePages). `sysfs` is where it is mounted.
bool HasHugePages(const std::string& sysfs = "/sys");

}  // namespace msitd::shm
