// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/index_gate.h"

namespace msitd::storage {

// Keeps changes of a run that let no more chunks of it in apart from the append
// that has some. Others do not wait. Thread-safe.
class AppendGate {
 public:
  // It outlives the gate.
  explicit AppendGate(IndexGate& index) : index_(index) {}

  // Has `admit` say which runs an append has chunks of, while no run is
  // changed. They are held until Leave, by one append at a time.
  //
  // Errors: those of `admit`; nothing is held then.
  absl::Status Enter(
      absl::FunctionRef<absl::StatusOr<std::vector<RunId>>()> admit)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `change` once no append holds the run of this name; one that comes
  // waits until it has returned.
  //
  // Errors: NOT_FOUND with RUN_NOT_FOUND; those of `change`.
  absl::Status Change(std::string_view run,
                      absl::FunctionRef<absl::Status()> change)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  IndexGate& index_;

  Mutex mu_;
  CondVar released_;  // held_ became empty.
  std::set<RunId> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
