// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/ctl/command/pages.h"
#include "client/ctl/compare/parts.h"
#include "client/ctl/flag/match_flags.h"
#include "client/ctl/flag/matching_flags.h"
#include "client/ctl/flag/plugin_flags.h"
#include "client/ctl/flag/policy_flags.h"
#include "client/ctl/flag/selection.h"
#include "client/ctl/invocation.h"
#include "client/query/outcome.h"

namespace msitd::ctl {

struct CompareFlags {
  std::string golden;
  std::string target;
  // Where they lie: another daemon, or the URL of an archive, which may come
  // with the name of the run; empty for the daemon that compares.
  std::string golden_source = {};
  std::string target_source = {};
  SelectionFlags selection;
  PolicyFlags policy;
  MatchingFlags matching;
  MatchFlags match;
  bool follow = false;
  std::vector<std::string> watches;
  bool detach = false;
  std::string at;              // See AddWorkerFlag.
  std::string read = "bytes";  // What is read: bytes, unproven or samples.
  std::string rows = "fail";
  bool limit_is_given = false;
  PluginFlags plugins;
  PartsFlags parts;
  ListFlags list;
};

// Creates a comparison, waits for its end and prints it; exit code 1 if it does
// not pass, or a watch holds for a row. While it follows, rows are printed as
// they come. Plug-ins measure its rows before they are printed. An interrupt
// and --timeout cancel the comparison.
Outcome RunComparison(Invocation& invocation, const CompareFlags& flags);

}  // namespace msitd::ctl
