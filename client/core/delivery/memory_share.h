// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace msitd::client {

// How much a client may use of the memory of its node if its host has not said
// it: as much as each of 64 ranks could, of what the node has available and of
// what the control groups of this process allow. `proc` and `cgroup` are where
// these file systems are mounted. 0 if neither is known.
uint64_t MemoryShare(const std::string& proc = "/proc",
                     const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace msitd::client
