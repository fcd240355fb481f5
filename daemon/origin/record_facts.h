// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/match/run_losses.h"
#include "daemon/origin/module_facts.h"
#include "protos/capture/capture_policy.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// The gaps in the record of a rank, as far as the record shows them.
class RecordFacts {
 public:
  // `losses` are those of the run.
  //
  // Errors: those of the reader; that of `stop`.
  static absl::StatusOr<RecordFacts> Read(storage::RunReader& run,
                                          const storage::RunInfo& info,
                                          int32_t rank,
                                          const compare::LossesByRank& losses,
                                          storage::StopCheck stop);

  // Returns whether records may have been lost: the run lacks records of the
  // rank, a place in the log cannot be read, or the rank reported nothing.
  bool may_lack_records() const { return may_lack_records_; }

  // Returns whether the capture policy excludes ops or sides of ops at `token`.
  bool FiltersOps(int64_t token) const;

  // Returns the reason why a record of `op` is missing, such as an argument in
  // an object; empty if there is none. Reports name only the first op of each
  // reason. A reason about an argument that was not counted exactly once may
  // apply to every op.
  std::string NotRecordedAt(std::string_view op) const;

  // Returns whether the client reported that `op` was never called.
  bool IsUncalled(std::string_view op) const;

 private:
  // Why records are missing.
  struct Reason {
    std::string reason;
    std::string op;  // The first one.
    std::string index;
    int64_t count = 0;
  };

  bool may_lack_records_ = true;
  capture::Policies policies_;
  std::vector<Reason> reasons_;
  std::vector<std::string> uncalled_;  // Ops, ascending.
};

}  // namespace msitd::origin
