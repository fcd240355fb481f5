// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/measured_drift.h"

namespace msitd::compare {

using Role = CallTree::Role;

MeasuredDrift::MeasuredDrift(const CallTree& tree)
    : tree_(tree), seen_(tree.calls().size() + 1) {}

void MeasuredDrift::Add(std::optional<double> error, bool fails) {
  const auto event = static_cast<int32_t>(events_.size());
  const CallTree::Event& of = tree_.event(events_.size());
  events_.push_back({error.value_or(0), fails || SourcesOf(event).has_failed});
  if (of.role != Role::kInput && of.role != Role::kOutput) return;
  const Seen& added = events_.back();
  const CallTree::Call& call = tree_.calls()[of.call];
  if (of.role == Role::kOutput && call.is_backward) {
    gradients_[call.op].Take(added);
  }
  if (of.role == Role::kInput) seen_[of.call + 1].Take(added);
  seen_[call.parent + 1].Take(added);
}

double MeasuredDrift::ErrorOfSources(int32_t event) const {
  const Seen sources = SourcesOf(event);
  return sources.has_failed ? 0 : sources.error;
}

MeasuredDrift::Seen MeasuredDrift::SourcesOf(int32_t event) const {
  const CallTree::Event& of = tree_.event(event);
  if (of.role == Role::kWeight) {
    const auto gradient = gradients_.find(tree_.calls()[of.call].op);
    return gradient != gradients_.end() ? gradient->second : Seen();
  }
  if (of.role != Role::kInput && of.role != Role::kOutput) return {};
  if (of.same != CallTree::kNone) return events_[of.same];
  const CallTree::Call& call = tree_.calls()[of.call];
  const bool is_made_in_call =
      of.role == Role::kOutput && (call.has_input || call.has_parts);
  return seen_[(is_made_in_call ? of.call : call.parent) + 1];
}

}  // namespace msitd::compare
