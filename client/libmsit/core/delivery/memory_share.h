// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace msitd::libmsit {

// Returns how much of the node's memory a client may use if its host has not
// specified it: 1/64 of the memory that is available on the node and allowed by
// the control groups of this process, as if the node had 64 ranks. `proc` and
// `cgroup` are the mount points of these file systems. Returns 0 if neither
// value is known.
uint64_t MemoryShare(const std::string& proc = "/proc",
                     const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace msitd::libmsit
