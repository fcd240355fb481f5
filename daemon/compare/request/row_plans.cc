// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/row_plans.h"

#include <algorithm>

#include "daemon/compare/request/request_view.h"

namespace msitd::compare {

void RowPlans::Clear() {
  last_plan_ = nullptr;
  plans_.clear();
}

absl::StatusOr<SharedPlan> RowPlans::Get(
    const PlanKey& key, absl::FunctionRef<absl::StatusOr<SharedPlan>()> make) {
  if (last_plan_ != nullptr && last_plan_->first == key) {
    return last_plan_->second;
  }
  if (const auto found = plans_.find(key); found != plans_.end()) {
    last_plan_ = &*found;
    return found->second;
  }
  absl::StatusOr<SharedPlan> plan = make();
  if (plans_.size() < kRowPlansMax) {
    last_plan_ = &*plans_.emplace(key, plan).first;
  }
  return plan;
}

const std::string& RowPlans::TextOf(std::span<const RowRange> positions) {
  if (last_text_.empty() || !std::ranges::equal(positions, last_positions_)) {
    last_positions_.assign(positions.begin(), positions.end());
    last_text_ = PositionsText(positions);
  }
  return last_text_;
}

}  // namespace msitd::compare
