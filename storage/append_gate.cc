// SPDX-License-Identifier: Apache-2.0
#include "storage/append_gate.h"

#include "protos/status/status.h"

namespace msitd::storage {

absl::Status AppendGate::Enter(
    absl::FunctionRef<absl::StatusOr<std::vector<RunId>>()> admit) {
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const std::vector<RunId> runs, admit());
  held_.insert(runs.begin(), runs.end());
  return absl::OkStatus();
}

void AppendGate::Leave() {
  {
    const MutexLock lock(mu_);
    held_.clear();
  }
  released_.NotifyAll();
}

absl::Status AppendGate::Change(std::string_view run,
                                absl::FunctionRef<absl::Status()> change) {
  const MutexLock lock(mu_);
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const RunBrief info, index_->runs().Brief(run));
    if (!held_.contains(info.id)) return change();
    released_.Wait(mu_);
  }
}

}  // namespace msitd::storage
