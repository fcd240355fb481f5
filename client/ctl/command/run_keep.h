// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/ctl/command/keep_function.h"
#include "client/ctl/invocation.h"
#include "client/query/outcome.h"
#include "client/runs/import_target.h"

namespace msitd::ctl {

// What a run keeps of the tensors that files of other tools bring: `--keep`.
// Thread-compatible.
class RunKeep {
 public:
  // Borrows `invocation` and `flags`.
  RunKeep(Invocation& invocation, const KeepFlags& flags)
      : invocation_(invocation), flags_(flags) {}

  // Loads the function that --keep names, if it does. `is_stopped` ends a wait
  // for it. Before anything is asked of the daemon.
  Outcome LoadFunction(StopCheck is_stopped);
  // Null if there is none.
  job::TensorDeriver* deriver() { return function_.get(); }

  // Of each tensor the run keeps all, or all that a function returns.
  bool is_full() const;

  // Makes what --keep says the capture policy of `run`, so that whoever fills
  // it keeps to it. A usage error if it has another one; if that could keep
  // less than all, only if `must_be_whole`. Before records are sent.
  Outcome SetPolicy(const std::string& run, bool must_be_whole);
  // Of the run, once SetPolicy has looked; 0: it has no policy.
  int64_t policy_revision() const { return policy_revision_; }

  // Notes the function with the run, by `attach`. A run has what one function
  // keeps, or what none did, so that a comparison can say which: a usage error
  // if it is otherwise.
  Outcome SetFunction(const v1::Run& run, job::ImportTarget& attach);

 private:
  Invocation& invocation_;
  const KeepFlags& flags_;
  std::unique_ptr<KeepFunction> function_;
  int64_t policy_revision_ = 0;
};

}  // namespace msitd::ctl
