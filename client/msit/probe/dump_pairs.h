// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/trees/msprobe/msprobe_index.h"

namespace msitd::msit_command {

// Two dumps of msprobe that are compared with each other, each of one rank and
// step.
struct ProbePair {
  // The folders that contain the dumps.
  std::string golden;
  std::string target;
  trees::MsprobeIndex::Source source = trees::MsprobeIndex::Source::kDump;
  // The step and the rank of the target.
  int64_t step = 0;
  int32_t rank = 0;
  // The part of the name of the report that names the rank and, if there are
  // several, the step: `_rank0`. Empty for a single dump.
  std::string label;
};

struct ProbePairs {
  std::vector<ProbePair> pairs;
  // Ranks and steps that exist on one side only, or are paired only by their
  // positions, and entries of the folders that are not dumps.
  std::vector<std::string> warnings;
};

// Finds the dumps at two paths. Each path is a dump.json or debug.json, the
// folder of a rank, of a step with ranks, or a folder of steps.
//
// Ranks are paired by their numbers, and by their order if no number occurs on
// both sides. Folders of processes (`proc<P>`) are paired by their order,
// because numbers of processes differ between runs. Several steps are paired by
// their numbers. A single step is paired with any single step.
//
// Errors: NOT_FOUND for a path that does not exist; INVALID_ARGUMENT with the
// path if it is anything else, if one path is a file and the other a folder of
// ranks, or if nothing belongs together.
absl::StatusOr<ProbePairs> FindProbePairs(const std::string& golden,
                                          const std::string& target);

}  // namespace msitd::msit_command
