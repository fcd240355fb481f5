// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/types.h"
#include "storage/rebuild/index_salvage.h"
#include "storage/rebuild/log_survey.h"

namespace msitd::storage {

// The label of a run that only the segments had: its value says so. Its labels,
// owner, job and settings are lost.
inline constexpr char kRebuiltLabel[] = "rebuilt";
inline constexpr char kRebuiltFromSegments[] = "from segments";

// The runs that a rebuilt index has.
//
// The number of a run is never given again, and a name belongs to one run at a
// time. So of several runs with one name, all but the last were deleted. Other
// runs of the segments that the old index does not have were deleted if it was
// read completely and is not older than they are; otherwise they are taken from
// the segments.
struct RunChoice {
  std::vector<RunInfo> kept;  // As the old index had them.
  // From the segments alone. Some of them may have been deleted.
  std::vector<RunInfo> recovered;
  // Runs that were deleted and whose segments wait to be given back.
  std::set<uint64_t> hidden;
  // Runs that have frames in the segments and were deleted.
  std::set<uint64_t> deleted;
  uint64_t next_run_id = 1;

  // True if the run is in `kept` or in `recovered`.
  bool Contains(uint64_t run) const { return numbers.contains(run); }
  std::set<uint64_t> numbers;
};

absl::StatusOr<RunChoice> ChooseRuns(IndexSalvage& old,
                                     const LoggedRuns& logged);

}  // namespace msitd::storage
