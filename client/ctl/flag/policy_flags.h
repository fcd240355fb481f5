// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// What passes, as the command line says it.
struct PolicyFlags {
  std::vector<std::string> rules;
  std::string policy_file;
  std::string tolerance;
  std::string preset;
  std::vector<std::string> metrics;
  std::string shapes;
  int top_k = 0;
  std::vector<std::string> allow_unmatched;
};

void AddPolicyFlags(CLI::App& verb, PolicyFlags& flags);

// Returns a policy that the daemon has yet to check.
Outcome ToPolicy(const PolicyFlags& flags, v1::Policy& policy);

}  // namespace msitd::ctl
