// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/measured_drift.h"

#include <algorithm>

namespace msitd::compare {

using Role = CallTree::Role;

MeasuredDrift::MeasuredDrift(const CallTree& tree)
    : tree_(tree), seen_(tree.calls().size() + 1) {}

void MeasuredDrift::Add(std::optional<double> error) {
  const CallTree::Event& of = tree_.event(errors_.size());
  errors_.push_back(error.value_or(0));
  const auto add_to = [&](int32_t call) {
    seen_[call + 1] = std::max(seen_[call + 1], errors_.back());
  };
  if (of.role != Role::kInput && of.role != Role::kOutput) return;
  const CallTree::Call& call = tree_.calls()[of.call];
  if (of.role == Role::kOutput && call.is_backward) {
    double& gradient = gradients_[call.op];
    gradient = std::max(gradient, errors_.back());
  }
  if (of.role == Role::kInput) add_to(of.call);
  add_to(call.parent);
}

double MeasuredDrift::ErrorOfSources(int32_t event) const {
  const CallTree::Event& of = tree_.event(event);
  if (of.role == Role::kWeight) {
    const auto gradient = gradients_.find(tree_.calls()[of.call].op);
    return gradient != gradients_.end() ? gradient->second : 0;
  }
  if (of.role != Role::kInput && of.role != Role::kOutput) return 0;
  if (of.same != CallTree::kNone) return errors_[of.same];
  const CallTree::Call& call = tree_.calls()[of.call];
  const bool is_made_in_call =
      of.role == Role::kOutput && (call.has_input || call.has_parts);
  return ErrorSeenBy(is_made_in_call ? of.call : call.parent);
}

}  // namespace msitd::compare
