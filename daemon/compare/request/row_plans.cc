// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/row_plans.h"

#include <algorithm>
#include <utility>

#include "daemon/compare/request/request_view.h"

namespace msitd::compare {

void RowPlans::Clear() {
  last_plan_ = nullptr;
  plans_.clear();
}

PlanKey& RowPlans::NewKey() {
  new_key_.clear();
  return new_key_;
}

absl::StatusOr<SharedPlan> RowPlans::Get(
    const PlanKey& key, absl::FunctionRef<absl::StatusOr<SharedPlan>()> make) {
  if (last_plan_ != nullptr && last_key_ == key) return *last_plan_;
  std::string bytes(reinterpret_cast<const char*>(key.data()),
                    key.size() * sizeof(key[0]));
  auto found = plans_.find(bytes);
  if (found == plans_.end()) {
    absl::StatusOr<SharedPlan> plan = make();
    if (plans_.size() == kRowPlansMax) return plan;
    found = plans_.emplace(std::move(bytes), std::move(plan)).first;
  }
  last_key_ = key;
  last_plan_ = &found->second;
  return *last_plan_;
}

const std::string& RowPlans::TextOf(std::span<const RowRange> positions) {
  if (last_text_.empty() || !std::ranges::equal(positions, last_positions_)) {
    last_positions_.assign(positions.begin(), positions.end());
    last_text_ = PositionsText(positions);
  }
  return last_text_;
}

}  // namespace msitd::compare
