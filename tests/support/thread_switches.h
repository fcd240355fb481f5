// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace msitd::testing {

// Returns how often the threads of this process have yielded a processor,
// voluntarily or not, by thread name. A thread that only sleeps never does.
inline std::map<std::string, uint64_t> ThreadSwitches() {
  std::map<std::string, uint64_t> out;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string name;
    uint64_t count = 0;
    for (std::string field; status >> field;) {
      if (field == "Name:") status >> name;
      if (field.ends_with("ctxt_switches:")) {
        uint64_t more = 0;
        status >> more;
        count += more;
      }
    }
    out[name] += count;
  }
  return out;
}

}  // namespace msitd::testing
