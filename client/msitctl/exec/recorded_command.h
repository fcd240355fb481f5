// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/ask/query/outcome.h"
#include "client/msitctl/exec/exec_daemon.h"
#include "client/msitctl/exec/exec_flags.h"
#include "client/msitctl/invocation.h"

namespace msitd::msitctl {

struct RecordedCommand {
  // Each process that is not a rank of another one has a run of its own, in the
  // order in which they started to record. All of them are sealed.
  std::vector<std::string> runs;
  int exit_code = 0;
  // Whether the variation was applied; true without one.
  bool is_varied = true;
  // Whether a process has printed that something is not recorded.
  bool has_failed = false;
};

// Runs the command once, records it as `run`, and prints what was recorded.
// `variation` changes how its models compute; see
// client/python/msitd/_exec/variations.py. Returns an outcome with an error if
// the command could not be run.
ask::Outcome RunRecorded(Invocation& invocation, const ExecFlags& flags,
                         const std::string& run, const std::string& variation,
                         ExecDaemon& daemon, RecordedCommand& recorded);

}  // namespace msitd::msitctl
