// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/comparison_convert.h"

#include <optional>
#include <utility>
#include <vector>

#include "daemon/compare/comparison_name.h"
#include "daemon/service/proto_convert.h"
#include "protos/status/status.h"

namespace msitd::service {

absl::StatusOr<uint64_t> ToComparisonId(std::string_view name) {
  const std::optional<uint64_t> id = compare::ParseComparisonName(name);
  if (id.has_value()) return *id;
  return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                               "no comparison '{}'; names look like {}", name,
                               compare::FormatComparisonName(1)),
                    "COMPARISON_NOT_FOUND");
}

absl::StatusOr<compare::ComparisonPlan> ToPlan(const v1::Comparison& request) {
  compare::ComparisonPlan plan;
  plan.golden_run = request.golden_run();
  plan.target_run = request.target_run();
  if (plan.golden_run.empty()) {
    return FieldInvalid("comparison.golden_run", "is required");
  }
  if (plan.target_run.empty()) {
    return FieldInvalid("comparison.target_run", "is required");
  }
  MSITD_ASSIGN_OR_RETURN(plan.selector, ToSelector(request.filter()));
  std::vector<compare::PolicyRule> rules;
  for (const v1::Policy::Rule& rule : request.policy().rules()) {
    rules.push_back({rule.op_pattern(), rule.predicate()});
  }
  MSITD_ASSIGN_OR_RETURN(plan.policy, compare::Policy::Create(rules));
  return plan;
}

}  // namespace msitd::service
