// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/overflow_ids.h"

#include <cstdint>
#include <fstream>

namespace msitd::access {
namespace {

constexpr uint32_t kDefaultOverflowId = 65534;
// The highest number does not denote a user (user_namespaces(7)).
constexpr uint64_t kAllIds = UINT32_MAX;

// Returns true if the map has a single line that maps every id to itself.
bool MapsAllIds(const std::string& path) {
  std::ifstream file(path);
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  return file >> inside >> outside >> count && inside == 0 && outside == 0 &&
         count == kAllIds;
}

// Returns true if the map assigns `id` to a user of the namespace.
bool Maps(const std::string& path, uint64_t id) {
  std::ifstream file(path);
  uint64_t inside = 0;
  uint64_t outside = 0;
  uint64_t count = 0;
  while (file >> inside >> outside >> count) {
    if (id >= inside && id - inside < count) return true;
  }
  return false;
}

uint32_t ReadId(const std::string& path) {
  std::ifstream file(path);
  uint32_t id = 0;
  return file >> id ? id : kDefaultOverflowId;
}

}  // namespace

OverflowIds OverflowIds::Read(const std::string& process,
                              const std::string& kernel) {
  OverflowIds out;
  if (!MapsAllIds(process + "/uid_map")) {
    out.user = ReadId(kernel + "/overflowuid");
    out.user_is_mapped = Maps(process + "/uid_map", *out.user);
  }
  if (!MapsAllIds(process + "/gid_map")) {
    out.group = ReadId(kernel + "/overflowgid");
  }
  return out;
}

}  // namespace msitd::access
