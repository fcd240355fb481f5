// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace msitd::watch {

// Returns the folder of a path, "" if there is none, and the name in it.
inline std::pair<std::string, std::string> SplitName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace msitd::watch
