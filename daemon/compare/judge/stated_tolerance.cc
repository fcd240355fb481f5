// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/stated_tolerance.h"

#include <utility>

#include "absl/status/statusor.h"
#include "daemon/compare/judge/preset.h"
#include "daemon/compare/judge/row_metrics.h"
#include "protos/base/tolerance_record.h"
#include "protos/status/status.h"

namespace msitd::compare {

StatedTolerance ParseStatedTolerance(std::string_view text) {
  StatedTolerance out;
  if (text.starts_with(kPassIf)) {
    absl::StatusOr<predicate::Predicate> parsed =
        predicate::Predicate::Parse(text.substr(kPassIf.size()), MetricNames());
    if (parsed.ok() && (SetsOf(*parsed) & compute::kToleranceSet) == 0) {
      out.predicate = *std::move(parsed);
      return out;
    }
    out.reason = "the golden run states a tolerance that is not a predicate";
    return out;
  }
  if (text.starts_with(kCovered)) {
    out.is_covered = true;
    out.reason = text.substr(kCovered.size());
    return out;
  }
  out.reason = text.starts_with(kNotChecked)
                   ? text
                   : "the golden run states nothing that is known here";
  return out;
}

void ApplyStatedTolerance(std::shared_ptr<const StatedTolerance> stated,
                          PairPlan& plan) {
  if (plan.way == PairPlan::Way::kLater) return;
  if (!stated->predicate.has_value()) {
    plan = PairPlan();
    plan.way = PairPlan::Way::kStated;
    plan.stated = std::move(stated);
    return;
  }
  Verification& verification = plan.verification;
  // Without a predicate, the policy does not decide the pair.
  if (verification.predicate == nullptr || !verification.is_default) return;
  verification.predicate = &*stated->predicate;
  verification.request.sets |= SetsOf(*stated->predicate);
  verification.request.closing.reset();
  verification.is_default = false;
  verification.is_by_basis = false;
  verification.hash_decides = false;
  plan.stated = std::move(stated);
}

}  // namespace msitd::compare
