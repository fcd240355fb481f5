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

// Folders of processes, as msit lays them out for torch and for ATB:
// msit_dump_<time>/<container>/<process>/<token>.
namespace msitd::trees {

// The device in the name of such a folder: `npu5_7624`, `cpu_99`, `0_4242`, and
// `7624_npu5` of older releases.
struct ProcessName {
  std::string device;
  int64_t device_id = 0;
  int64_t process = 0;
};

// Nothing if it is another name.
std::optional<ProcessName> ParseProcessName(std::string_view name);

// True if `a` has the lower rank of two processes of a dump.
bool RanksBefore(const ProcessName& a, const ProcessName& b);

// Reads the name of the folder of a token: a number without zeros before it, so
// that no two folders are the same token.
std::optional<int64_t> ParseTokenName(std::string_view name);

// True for msit_dump* and ait_dump*.
bool IsMsitDump(std::string_view name);

struct DumpProcess {
  // By device, then process.
  int32_t rank = 0;
  std::string device;
  // As ProcessName has it.
  int64_t process = 0;
  // Relative to the tree.
  std::string path;
  // Set if `path` is the folder of one token.
  std::optional<int64_t> token;
};

struct DumpProcesses {
  std::vector<DumpProcess> processes;
  // The folder in which the container lies, if that is in the tree.
  std::optional<std::string> dump;
  // What lies beside the processes.
  std::vector<TreeProblem> problems;
};

// Finds the processes below any folder on the way to one of their tokens.
// INVALID_ARGUMENT if there are several dumps.
absl::StatusOr<DumpProcesses> FindProcesses(const TreeFolder& folder,
                                            std::string_view container);

}  // namespace msitd::trees
