// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/compare/judge/required_tolerances.h"
#include "daemon/compare/match/run_losses.h"
#include "daemon/compare/match/stream_watch.h"
#include "daemon/compare/origin/findings.h"
#include "daemon/compare/work_observer.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/run_ranks.h"

namespace msitd::compare {

// Follows one comparison. All calls come from the thread that runs it.
class ComparisonObserver : public WorkObserver {
 public:
  // How many tensors of the golden run there are to look at, as far as is
  // known. Called once, before the first row.
  virtual void OnTotal(uint64_t tensor_count) = 0;

  // Records of each run that came again with other bytes, whenever it is looked
  // at.
  virtual void OnConflicts(uint64_t /*golden_count*/,
                           uint64_t /*target_count*/) {}

  // What the hooks of each run did not record.
  virtual void OnNotRecorded(int64_t /*golden_count*/,
                             int64_t /*target_count*/) {}

  // What each run lacks of what its ranks recorded, whenever that has changed.
  virtual void OnLosses(const RunLosses& /*golden*/,
                        const RunLosses& /*target*/) {}

  // Records of each run of kinds that the comparison was not asked for,
  // whenever it is looked at.
  virtual void OnLeftOut(uint64_t /*golden_count*/, uint64_t /*target_count*/) {
  }

  // Ranks of runs that are followed and have no stream, whenever they are
  // looked at.
  virtual void OnSilentRanks(const std::vector<Outlook::Silent>& /*golden*/,
                             const std::vector<Outlook::Silent>& /*target*/) {}

  // Which ranks of the runs are there to be compared. Called each time that the
  // runs are looked at.
  virtual void OnRanks(const storage::RunRanks& /*golden*/,
                       const storage::RunRanks& /*target*/) {}

  // The first token at which ranks that are not there may have tensors; nothing
  // if all are. Called once the rows of a look at the runs are made.
  virtual void OnFirstAbsent(std::optional<int64_t> /*token*/) {}

  // What the bounds of the policy would have to be for the rows so far; called
  // now and then, and before the end.
  virtual void OnRequiredTolerances(const RequiredTolerances& /*tolerances*/) {}

  // What the header shows of the rows so far, and of the next one; called when
  // that has changed.
  virtual void OnFindings(const Findings& /*findings*/) {}

  // What of the policy and the matching has met no op, as flags of msitctl;
  // called once all rows are made.
  virtual void OnIdleRules(const std::vector<std::string>& /*rules*/) {}

  // The next row, valid during the call; its number is set, and its metrics are
  // not. `bytes` is the whole row in wire format. An error ends the comparison.
  virtual absl::Status OnRow(const v1::ComparisonRow& row,
                             std::string bytes) = 0;
};

}  // namespace msitd::compare
