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

// Receives the rows and the state of one comparison from its engine. All
// functions except is_over are called on the thread that runs the comparison.
class ComparisonObserver : public WorkObserver {
 public:
  // Called once, before the first row, with the number of tensors of the golden
  // run to compare, as far as it is known.
  virtual void OnTotal(uint64_t tensor_count) = 0;

  // Called each time the runs are read, with the number of records of each run
  // that were received again with other bytes.
  virtual void OnConflicts(uint64_t /*golden_count*/,
                           uint64_t /*target_count*/) {}

  // Reports how many records the hooks of each run did not record.
  virtual void OnNotRecorded(int64_t /*golden_count*/,
                             int64_t /*target_count*/) {}

  // Called with the tensors that each run lacks although its ranks recorded
  // them, when these have changed.
  virtual void OnLosses(const RunLosses& /*golden*/,
                        const RunLosses& /*target*/) {}

  // Called each time the runs are read, with the number of records of each run
  // that are not compared because of their kind.
  virtual void OnLeftOut(uint64_t /*golden_count*/, uint64_t /*target_count*/) {
  }

  // Called each time followed runs are read, with the ranks that have no
  // stream.
  virtual void OnSilentRanks(const std::vector<Outlook::Silent>& /*golden*/,
                             const std::vector<Outlook::Silent>& /*target*/) {}

  // Called each time the runs are read, with the ranks that are available for
  // the comparison.
  virtual void OnRanks(const storage::RunRanks& /*golden*/,
                       const storage::RunRanks& /*target*/) {}

  // Called after the available rows are made. `token` is the first one at which
  // ranks that a run lacks may have tensors, or nullopt if no rank is missing.
  virtual void OnFirstAbsent(std::optional<int64_t> /*token*/) {}

  // Called occasionally and before the end, with the bounds with which the rows
  // so far would pass.
  virtual void OnRequiredTolerances(const RequiredTolerances& /*tolerances*/) {}

  // Called before a row if the row changes the findings, which the header of
  // the comparison shows.
  virtual void OnFindings(const Findings& /*findings*/) {}

  // Called after the last row, with the parts of the policy and the matching
  // that did not apply to any op, as flags of msitctl.
  virtual void OnIdleRules(const std::vector<std::string>& /*rules*/) {}

  // Called after the last row, with flags of msitctl that would pair tensors
  // without a counterpart.
  virtual void OnPairingHints(const std::vector<std::string>& /*flags*/) {}

  // Called with the next row, which has its number but no metrics. `bytes` is
  // the complete row, with metrics, in wire format. `row` is valid only during
  // the call. An error ends the comparison.
  virtual absl::Status OnRow(const v1::ComparisonRow& row,
                             std::string bytes) = 0;
};

}  // namespace msitd::compare
