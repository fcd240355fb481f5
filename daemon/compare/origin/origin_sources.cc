// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/compare/origin/origin.h"

// The tensors that a cause was computed from.
namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// The number of events before a tensor that are searched.
constexpr int32_t kSourcesReach = 4096;

}  // namespace

OriginFinder::Scope OriginFinder::WithForward(int32_t call, Scope own) {
  const int32_t forward =
      call == CallTree::kNone ? CallTree::kNone : tree_->calls()[call].forward;
  if (forward == CallTree::kNone) return own;
  const Scope& of_forward = ScopeOf(forward);
  if (of_forward.worst != CallTree::kNone &&
      (own.worst == CallTree::kNone ||
       errors_[of_forward.worst] > errors_[own.worst])) {
    own.worst = of_forward.worst;
  }
  own.has_failed = own.has_failed || of_forward.has_failed;
  own.has_others = own.has_others || of_forward.has_others;
  return own;
}

std::vector<size_t> OriginFinder::SourcesOf(size_t pair, size_t count) const {
  std::vector<size_t> out;
  const auto event = static_cast<int32_t>(pair);
  if (!has_order_ || !tree_.has_value() || pair >= tree_->event_count()) {
    return out;
  }
  const CallTree::Event& of = tree_->event(event);
  if (of.role != Role::kInput && of.role != Role::kOutput) return out;
  const CallTree::Call& call = tree_->calls()[of.call];
  const bool is_op = of.role == Role::kOutput && !call.has_parts;
  // The code of this call has computed the tensor.
  const int32_t scope = of.role == Role::kInput ? call.parent : of.call;
  const auto is_source = [&](int32_t i) {
    const CallTree::Event& other = tree_->event(i);
    if (is_op) {
      return other.call == of.call &&
             (other.role == Role::kInput || other.role == Role::kWeight);
    }
    if (other.call == scope) return other.role == Role::kInput;
    return other.role == Role::kOutput &&
           tree_->calls()[other.call].parent == scope;
  };
  const int32_t end = std::max(0, event - kSourcesReach);
  for (int32_t i = event - 1; i >= end && out.size() < count; --i) {
    if (is_source(i) && (*pairs_)[i].target != nullptr) {
      out.push_back(static_cast<size_t>(i));
    }
  }
  return out;
}

DType OriginFinder::ComputedIn(size_t pair) const {
  return pair < computed_in_.size() ? computed_in_[pair] : DType::kUnspecified;
}

}  // namespace msitd::compare
