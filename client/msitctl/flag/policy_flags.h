// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"

namespace msitd::msitctl {

// The flags that specify which rows pass.
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

// Adds the flags whose effect on a row depends only on its metrics and shapes.
void AddToleranceFlags(CLI::App& verb, PolicyFlags& flags);

// Adds these flags, and those that select additional metrics and allow
// unmatched tensors.
void AddPolicyFlags(CLI::App& verb, PolicyFlags& flags);

// Fills in `policy`, which the daemon still has to validate, and the origin of
// each of its rules: `--policy p.txt, line 3`.
ask::Outcome ToPolicy(const PolicyFlags& flags, v1::Policy& policy,
                      std::vector<std::string>& rule_sources);

// Warns on stderr about rules that require a large value of a metric for which
// lower is better. Any run passes such a rule, or none.
void WarnOfDirections(const v1::Policy& policy,
                      const std::vector<std::string>& rule_sources,
                      const std::vector<v1::Metric>& metrics);

}  // namespace msitd::msitctl
