// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/row_plans.h"

#include "daemon/compare/request/request_view.h"

namespace msitd::compare {

absl::StatusOr<SharedPlan> RowPlans::Get(
    const std::string& key,
    absl::FunctionRef<absl::StatusOr<SharedPlan>()> make) {
  if (const auto found = plans_.find(key); found != plans_.end()) {
    return found->second;
  }
  absl::StatusOr<SharedPlan> plan = make();
  if (plans_.size() < kRowPlansMax) plans_.emplace(key, plan);
  return plan;
}

const std::string& RowPlans::TextOf(const std::vector<RowRange>& positions) {
  if (last_text_.empty() || positions != last_positions_) {
    last_positions_ = positions;
    last_text_ = PositionsText(positions);
  }
  return last_text_;
}

}  // namespace msitd::compare
