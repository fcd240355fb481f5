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

// Keeps an append apart from changes that close one of its runs to further
// chunks, such as sealing. A change of any other run does not wait for the
// append. Thread-safe.
class AppendGate {
 public:
  // `index` outlives the gate.
  explicit AppendGate(IndexGate& index) : index_(index) {}

  // Calls `admit`, which returns the runs that an append has chunks of; no run
  // changes during the call. The gate holds these runs until Leave, for one
  // append at a time.
  //
  // Errors: those of `admit`; no run is held then.
  absl::Status Enter(
      absl::FunctionRef<absl::StatusOr<std::vector<RunId>>()> admit)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `change` once no append holds the run of this name. An append that
  // enters meanwhile waits until `change` has returned.
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
