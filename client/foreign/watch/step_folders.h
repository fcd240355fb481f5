// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msitd::watch {

// The folder of a rank in a step of msprobe, such as `dump/step3/rank0`.
struct StepFolder {
  std::string path;
  int64_t step = 0;
  // The path of the folder of steps, and the name of the rank.
  std::pair<std::string, std::string> rank;
};

// Returns the step folder that contains a file; nothing if none does. `path` is
// relative.
std::optional<StepFolder> StepFolderOf(std::string_view path);

// The step folders of a tree that grows. A program writes into the folder of a
// step until it begins the next step: dump.json may be rewritten several times,
// and files that it names arrive before and after it. A folder of which a later
// step of the same rank exists is past, so its documents are final.
// Thread-compatible.
class StepFolders {
 public:
  // Handles a file. `path` is relative.
  void Add(std::string_view path);
  // Forgets a folder that needs no more work.
  void Remove(const std::string& path) { open_.erase(path); }

  // Paths of folders that were added and not removed.
  std::vector<std::string> All() const;
  // Those of them that are past.
  std::vector<std::string> Past() const;
  // Steps whose folders are all past.
  std::set<int64_t> PastSteps() const;

 private:
  bool IsPast(const StepFolder& folder) const;

  std::map<std::string, StepFolder> open_;
  // The last step of each rank.
  std::map<std::pair<std::string, std::string>, int64_t> last_;
};

}  // namespace msitd::watch
