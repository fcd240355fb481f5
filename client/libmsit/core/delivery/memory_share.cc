// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/memory_share.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace msitd::libmsit {
namespace {

constexpr uint64_t kShare = 64;
constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// Returns the number at the start of the file. A file without a number sets no
// limit.
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t limit = 0;
  return file >> limit ? limit : kUnknown;
}

uint64_t Available(const std::string& proc) {
  std::ifstream file(proc + "/meminfo");
  for (std::string name; file >> name;) {
    uint64_t kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
  }
  return kUnknown;
}

// Returns the lowest limit of a control group and its ancestors. In a container
// the path may be that of the node, where no files exist; then only the group
// at the mount point is used.
uint64_t GroupLimit(const std::string& mount, std::string path,
                    const std::string& file) {
  uint64_t limit = LimitIn(mount + "/" + file);
  while (!path.empty() && path != "/") {
    limit = std::min(limit, LimitIn(mount + path + "/" + file));
    path.resize(path.rfind('/'));
  }
  return limit;
}

uint64_t Allowed(const std::string& proc, const std::string& cgroup) {
  uint64_t allowed = kUnknown;
  std::ifstream groups(proc + "/self/cgroup");
  // The line `0::PATH` names the group of version 2. Version 1 has a line for
  // each of several lists of controllers.
  for (std::string line; std::getline(groups, line);) {
    const size_t second = line.find(':', line.find(':') + 1);
    if (second == std::string::npos || line[second + 1] != '/') continue;
    const std::string path = line.substr(second + 1);
    if (line.starts_with("0::")) {
      allowed = std::min(allowed, GroupLimit(cgroup, path, "memory.max"));
    } else if (line.find(":memory:") != std::string::npos) {
      allowed = std::min(allowed, GroupLimit(cgroup + "/memory", path,
                                             "memory.limit_in_bytes"));
    }
  }
  return allowed;
}

}  // namespace

uint64_t MemoryShare(const std::string& proc, const std::string& cgroup) {
  const uint64_t bytes = std::min(Available(proc), Allowed(proc, cgroup));
  return bytes == kUnknown ? 0 : bytes / kShare;
}

}  // namespace msitd::libmsit
