// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/trees/detect.h"
#include "client/foreign/trees/tree.h"
#include "client/foreign/trees/tree_folder.h"

namespace msitd::trees {

// The dump of one rank and step.
struct MsprobePlace {
  int32_t rank = 0;
  int64_t token = 0;
  // Relative to the tree.
  std::string path;
  // The folder names a process, so `rank` is only a position among them.
  bool is_process = false;
};

struct MsprobeLayout {
  // By rank, then token.
  std::vector<MsprobePlace> places;
  std::vector<TreeAttachment> attachments;
  std::vector<TreeProblem> problems;
};

// Returns true if there is a dump.json or a debug.json at the top, or in a
// folder with a name that msprobe gives to that of a rank.
bool LooksLikeMsprobe(const TreeSample& sample);

// Finds the dumps in a root with folders `step<N>`, in a step, or in a rank.
// Ranks are `rank<R>`, or `rank` for rank 0 in early releases. Processes that
// did not know their rank are `proc<P>`. They follow the last known rank in the
// order of their numbers, which is reported as a problem unless there is only
// one. Returns INVALID_ARGUMENT if there are no dumps.
absl::StatusOr<MsprobeLayout> LayOutMsprobe(const TreeFolder& folder);

}  // namespace msitd::trees
