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
};

struct MsprobeLayout {
  // By rank, then token.
  std::vector<MsprobePlace> places;
  std::vector<TreeAttachment> attachments;
  std::vector<TreeProblem> problems;
};

// True if there is a dump.json or a debug.json at the top, or in a folder that
// is named as msprobe names that of a rank.
bool LooksLikeMsprobe(const TreeSample& sample);

// Finds the dumps of a root with folders `step<N>`, of a step, or of a rank.
// Ranks are `rank<R>`, of the seed `rank`, which is rank 0, and `proc<P>`:
// processes that had not learnt their rank. These are taken in the order of
// their numbers, behind the last known rank; unless there is only one, that is
// said as a problem. INVALID_ARGUMENT if there are none.
absl::StatusOr<MsprobeLayout> LayOutMsprobe(const TreeFolder& folder);

}  // namespace msitd::trees
