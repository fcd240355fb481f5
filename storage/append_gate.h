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

// Separates appends from changes that close one of their runs to further
// chunks, such as sealing. Changes of other runs do not wait for the append.
// Thread-safe.
class AppendGate {
 public:
  // `index` must outlive the gate.
  explicit AppendGate(IndexGate& index) : index_(index) {}

  // Calls `admit`, which returns the runs of the chunks to append; no run
  // changes during the call. The gate holds these runs until Leave. Only one
  // append can be inside at a time.
  //
  // Errors: those of `admit`; no run is held after an error.
  absl::Status Enter(
      absl::FunctionRef<absl::StatusOr<std::vector<RunId>>()> admit)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `change` when no append holds the run with this name. An append that
  // enters during the call waits until `change` has returned.
  //
  // Errors: NOT_FOUND with RUN_NOT_FOUND; those of `change`.
  absl::Status Change(std::string_view run,
                      absl::FunctionRef<absl::Status()> change)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  IndexGate& index_;

  Mutex mu_;
  CondVar released_;  // Signaled when held_ becomes empty.
  std::set<RunId> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
