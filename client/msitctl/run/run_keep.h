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

// What a run keeps of the tensors that files of other tools bring: `--keep`.
// Thread-compatible.
class RunKeep {
 public:
  // Borrows `invocation` and `flags`.
  RunKeep(Invocation& invocation, const KeepFlags& flags)
      : invocation_(invocation), flags_(flags) {}

  // Loads the function that --keep names, if it does. `is_stopped` ends a wait
  // for it. Before anything is asked of the daemon.
  ask::Outcome LoadFunction(ask::StopCheck is_stopped);
  // Null if there is none.
  fill::TensorDeriver* deriver() { return function_.get(); }

  // Of each tensor the run keeps all, or all that a function returns.
  bool is_full() const;

  // Makes what --keep says the capture policy of `run`, so that whoever fills
  // it keeps to it. A usage error if it has another one; if that could keep
  // less than all, only if `must_be_whole`. Before records are sent.
  ask::Outcome SetPolicy(const std::string& run, bool must_be_whole);
  // Of the run, once SetPolicy has looked; 0: it has no policy.
  int64_t policy_revision() const { return policy_revision_; }

  // Notes the function with the run, by `attach`. A run has what one function
  // keeps, or what none did, so that a comparison can say which: a usage error
  // if it is otherwise.
  ask::Outcome SetFunction(const v1::Run& run, fill::ImportTarget& attach);

 private:
  Invocation& invocation_;
  const KeepFlags& flags_;
  std::unique_ptr<KeepFunction> function_;
  int64_t policy_revision_ = 0;
};

}  // namespace msitd::msitctl
