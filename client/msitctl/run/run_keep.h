// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/ask/query/outcome.h"
#include "client/foreign/fill/run_target.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/run/keep_function.h"

namespace msitd::msitctl {

// The treatment of the tensors in files of other tools in a run: `--keep`.
// Thread-compatible.
class RunKeep {
 public:
  // Borrows `invocation` and `flags`.
  RunKeep(Invocation& invocation, const KeepFlags& flags)
      : invocation_(invocation), flags_(flags) {}

  // Loads the function that --keep names, if any. `is_stopped` ends the wait
  // for it. Call it before any request to the daemon.
  ask::Outcome LoadFunction(ask::StopCheck is_stopped);
  // Null if there is none.
  fill::TensorDeriver* deriver() { return function_.get(); }

  // Returns true if the run keeps every tensor, or every result of a function,
  // in full.
  bool is_full() const;

  // Sets the capture policy of `run` as --keep specifies, so that all writers
  // of the run follow it. Returns a usage error if the run has another policy;
  // if that policy could keep less than everything, only if `must_be_whole`.
  // Call it before records are sent.
  ask::Outcome SetPolicy(const std::string& run, bool must_be_whole);
  // The revision of the run's policy, after SetPolicy. 0: it has no policy.
  int64_t policy_revision() const { return policy_revision_; }

  // Stores the function with the run, using `attach`. A run contains the
  // results of only one function or of none, so that a comparison can identify
  // it. Otherwise, this is a usage error.
  ask::Outcome SetFunction(const v1::Run& run, fill::ImportTarget& attach);

 private:
  Invocation& invocation_;
  const KeepFlags& flags_;
  std::unique_ptr<KeepFunction> function_;
  int64_t policy_revision_ = 0;
};

}  // namespace msitd::msitctl
