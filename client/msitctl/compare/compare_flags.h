// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "client/msitctl/compare/parts.h"
#include "client/msitctl/flag/match_flags.h"
#include "client/msitctl/flag/matching_flags.h"
#include "client/msitctl/flag/plugin_flags.h"
#include "client/msitctl/flag/policy_flags.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/verb/pages.h"

namespace msitd::msitctl {

// The flags and arguments of `compare run`.
struct CompareFlags {
  std::string golden;
  std::string target;
  // The locations of the runs: another daemon, or the URL of an archive, which
  // may include the name of the run. Empty for the daemon that compares.
  std::string golden_source = {};
  std::string target_source = {};
  SelectionFlags selection;
  PolicyFlags policy;
  MatchingFlags matching;
  MatchFlags match;
  bool follow = false;
  std::vector<std::string> watches;
  bool detach = false;
  std::string at;  // See AddWorkerFlag.
  std::string read =
      "bytes";  // The data that is read: bytes, unproven or samples.
  std::string rows = "fail";
  bool limit_is_given = false;
  PluginFlags plugins;
  PartsFlags parts;
  ListFlags list;
  std::string out;  // File of a report or, in parts, folder of the rows.
};

}  // namespace msitd::msitctl
