// SPDX-License-Identifier: Apache-2.0
#include "protos/shm/huge_pages.h"

#include <fstream>
#include <string_view>

namespace msitd::shm {
namespace {

// Returns the word that the system has chosen, which is in brackets; empty if
// there is no such file.
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
  // From Linux 6.11 on, each size of pages has a choice of its own.
  std::ifstream file(folder + "hpage_pmd_size");
  uint64_t bytes = 0;
  file >> bytes;
  const std::string own = Choice(
      folder + "hugepages-" + std::to_string(bytes >> 10) + "kB/shmem_enabled");
  return IsYes(own.empty() || own == "inherit" ? choice : own);
}

}  // namespace msitd::shm
