// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/huge_pages.h"

#include <fstream>
#include <string_view>

namespace msitd::shm {
namespace {

// Returns the selected word of the file, which is in brackets; empty if the
// file does not exist.
std::string Choice(const std::string& path) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word.size() > 2 && word.front() == '[' && word.back() == ']') {
      return word.substr(1, word.size() - 2);
    }
  }
  return {};
}

bool IsYes(std::string_view choice) {
  return choice == "always" || choice == "within_size" || choice == "advise" ||
         choice == "force";
}

}  // namespace

bool HasHugePages(const std::string& sysfs) {
  const std::string folder = sysfs + "/kernel/mm/transparent_hugepage/";
  const std::string choice = Choice(folder + "shmem_enabled");
  if (choice == "force") return true;
  if (choice == "deny") return false;
  // Since Linux 6.11, each page size has its own setting.
  std::ifstream file(folder + "hpage_pmd_size");
  uint64_t bytes = 0;
  file >> bytes;
  const std::string own = Choice(
      folder + "hugepages-" + std::to_string(bytes >> 10) + "kB/shmem_enabled");
  return IsYes(own.empty() || own == "inherit" ? choice : own);
}

}  // namespace msitd::shm
