// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/trees/tree.h"
#include "client/foreign/trees/tree_folder.h"

// Folders of processes in the layout that msit uses for torch and for ATB:
// msit_dump_<time>/<container>/<process>/<token>.
namespace msitd::trees {

// The components of the name of such a folder: `npu5_7624`, `cpu_99`, `0_4242`,
// and `7624_npu5` of older releases.
struct ProcessName {
  std::string device;
  int64_t device_id = 0;
  int64_t process = 0;
};

// Returns nothing if the name has another form.
std::optional<ProcessName> ParseProcessName(std::string_view name);

// Returns true if `a` has a lower rank than `b` in the same dump.
bool RanksBefore(const ProcessName& a, const ProcessName& b);

// Parses the name of the folder of a token: a number without leading zeros, so
// that no two folders are the same token.
std::optional<int64_t> ParseTokenName(std::string_view name);

// Returns true for msit_dump* and ait_dump*.
bool IsMsitDump(std::string_view name);

struct DumpProcess {
  // By device, then process.
  int32_t rank = 0;
  std::string device;
  // As in ProcessName.
  int64_t process = 0;
  // Relative to the tree.
  std::string path;
  // Set if `path` is the folder of one token.
  std::optional<int64_t> token;
};

struct DumpProcesses {
  std::vector<DumpProcess> processes;
  // The folder that contains the container, if it is in the tree.
  std::optional<std::string> dump;
  // Problems with other entries next to the processes.
  std::vector<TreeProblem> problems;
};

// Finds the processes. `folder` may be any folder on the path to one of their
// tokens. Returns INVALID_ARGUMENT if there are several dumps.
absl::StatusOr<DumpProcesses> FindProcesses(const TreeFolder& folder,
                                            std::string_view container);

}  // namespace msitd::trees
