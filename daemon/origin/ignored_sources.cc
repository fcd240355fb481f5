// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/ignored_sources.h"

#include <unordered_set>

#include "daemon/origin/op_kinds.h"

namespace msitd::origin {
namespace {

using Event = RankEvents::Event;
using Role = CallNesting::Role;

class Explainer {
 public:
  Explainer(const RankEvents& events, const ModuleTree& tree)
      : events_(events), tree_(tree) {}

  // Returns whether an event is clean or explained. Must be called for all
  // events in ascending order.
  bool Explain(int32_t number) {
    const Event& event = events_.event(number);
    has_unexplained_ = has_unexplained_ || event.state == State::kUnknown;
    if (event.state != State::kIgnored) return true;
    const bool is_explained = IsExplained(number);
    has_unexplained_ = has_unexplained_ ||
                       (!is_explained && event.kind != RecordKind::kNumber);
    if (is_explained && event.hash != 0) hashes_.insert(event.hash);
    if (CallNesting::RoleOf(event.io) == Role::kInput) {
      auto& inputs = event.rule == IgnoreRule::kPadding ? padding_ : masks_;
      (is_explained ? inputs.explained : inputs.unexplained).insert(event.call);
    }
    return is_explained;
  }

 private:
  // Calls, by their ignored inputs.
  struct Inputs {
    std::unordered_set<int32_t> explained;
    std::unordered_set<int32_t> unexplained;

    bool Explain(int32_t call) const {
      return explained.contains(call) && !unexplained.contains(call);
    }
  };

  bool HasKnownBytes(const Event& event) const {
    return event.hash != 0 && hashes_.contains(event.hash);
  }

  // Returns whether an ignored argument of a function is -Inf as a constant of
  // the program. If the program computed the number, it did so from a tensor
  // with -Inf that is recorded as well.
  bool IsConstant(int32_t number) const {
    if (events_.event(number).kind != RecordKind::kNumber) return false;
    const std::string& op = events_.op_of(number);
    return WritesMask(op) || (IsFunction(op) && !has_unexplained_);
  }

  bool IsExplained(int32_t number) const {
    const Event& event = events_.event(number);
    const bool is_entry = CallNesting::RoleOf(event.io) == Role::kInput &&
                          IsModelCall(events_, tree_, event.call);
    switch (event.rule) {
      case IgnoreRule::kMaskOp:
      case IgnoreRule::kLogOfZero:
        return true;
      case IgnoreRule::kPassedOn:
        return masks_.Explain(event.call) || HasKnownBytes(event);
      case IgnoreRule::kMaskInput:
        return is_entry || HasKnownBytes(event) || IsConstant(number);
      case IgnoreRule::kPadding:
        // Unused rows remain the same rows in all tensors of a token.
        return is_entry || padding_.Explain(event.call) ||
               padding_.Explain(events_.call_of(number).parent) ||
               HasKnownBytes(event);
      default:
        return HasKnownBytes(event);
    }
  }

  const RankEvents& events_;
  const ModuleTree& tree_;
  // The bytes of explained events.
  std::unordered_set<uint64_t> hashes_;
  // True if a tensor before the current event was not judged, or is ignored and
  // not explained.
  bool has_unexplained_ = false;
  Inputs masks_;
  Inputs padding_;
};

}  // namespace

bool IsModelCall(const RankEvents& events, const ModuleTree& tree,
                 int32_t call) {
  const CallNesting::Call& of = events.nesting().calls()[call];
  if (of.parent != CallNesting::kNone || IsFunction(of.op) ||
      IsCollective(of.op)) {
    return false;
  }
  const ModuleFacts* const facts = tree.Find(of.op);
  return facts != nullptr
             ? facts->parent.empty()
             : tree.empty() && call == events.nesting().first_call();
}

std::vector<bool> FindExplained(const RankEvents& events,
                                const ModuleTree& tree, int32_t end) {
  Explainer explainer(events, tree);
  std::vector<bool> explained;
  explained.reserve(static_cast<size_t>(end));
  for (int32_t i = 0; i < end; ++i) explained.push_back(explainer.Explain(i));
  return explained;
}

}  // namespace msitd::origin
