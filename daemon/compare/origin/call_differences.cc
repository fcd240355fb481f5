// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/call_differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace msitd::compare {
namespace {

// Maximum number of names in a note.
constexpr size_t kCallNamesMax = 4;

void AddName(std::string_view name, std::vector<std::string_view>& names) {
  if (names.size() < kCallNamesMax) names.push_back(name);
}

// Adds a note such as `only golden calls A, B`. Adds nothing if there are no
// names.
template <typename Names>
void AddNote(std::string_view does, const Names& names,
             std::vector<std::string>& notes) {
  if (names.empty()) return;
  notes.push_back(fmt::format("{} {}", does, fmt::join(names, ", ")));
}

}  // namespace

CallDifferences::CallDifferences(const CallTree& tree,
                                 const std::vector<TensorPair>& pairs)
    : tree_(tree), pairs_(pairs) {
  NestTarget();
  NameTarget();
  CountCalls();
}

void CallDifferences::NestTarget() {
  std::vector<size_t> order;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].target != nullptr) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return pairs_[a].target->sequence < pairs_[b].target->sequence;
  });
  target_of_.resize(tree_.calls().size(), kNone);
  for (const size_t i : order) {
    const LogicalTensor& tensor = *pairs_[i].target;
    const int32_t call =
        target_.Add(tensor.key.op, tensor.key.call, tensor.key.io);
    begun_.resize(target_.calls().size(), tensor.sequence);
    golden_of_.resize(target_.calls().size(), kNone);
    const bool is_weight =
        CallNesting::RoleOf(tensor.key.io) == CallTree::Role::kWeight ||
        i >= tree_.event_count();
    if (is_weight) continue;
    const int32_t golden = tree_.event(i).call;
    if (golden_of_[call] == kNone) golden_of_[call] = golden;
    if (target_of_[golden] == kNone) target_of_[golden] = call;
  }
  target_.FindParents();
}

void CallDifferences::NameTarget() {
  for (const CallTree::Call& call : tree_.calls()) golden_ops_.insert(call.op);
  std::map<std::string_view, std::string_view> golden_names;
  const auto& calls = target_.calls();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (golden_of_[i] == kNone) continue;
    golden_names.try_emplace(calls[i].op, tree_.calls()[golden_of_[i]].op);
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    std::string_view name = calls[i].op;
    if (golden_of_[i] != kNone) {
      name = tree_.calls()[golden_of_[i]].op;
    } else if (const auto found = golden_names.find(name);
               found != golden_names.end()) {
      name = found->second;
    }
    names_.push_back(name);
    target_ops_.insert(name);
    target_by_name_.try_emplace({calls[i].number, name, calls[i].is_backward},
                                static_cast<int32_t>(i));
  }
}

void CallDifferences::CountCalls() {
  const auto& golden = tree_.calls();
  for (size_t i = 0; i < golden.size(); ++i) {
    if (golden[i].first == kNone) continue;
    const int32_t home = GoldenHome(static_cast<int32_t>(i));
    ++golden_counts_[{home, golden[i].op, golden[i].is_backward}];
  }
  const auto& target = target_.calls();
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i].first == kNone) continue;
    const int32_t home = TargetHome(static_cast<int32_t>(i));
    ++target_counts_[{home, names_[i], target[i].is_backward}];
  }
}

int32_t CallDifferences::GoldenHome(int32_t call) const {
  int32_t home = tree_.calls()[call].parent;
  while (home != kNone && !target_ops_.contains(tree_.calls()[home].op)) {
    home = tree_.calls()[home].parent;
  }
  return home;
}

int32_t CallDifferences::TargetHome(int32_t call) const {
  int32_t home = target_.calls()[call].parent;
  while (home != kNone && !golden_ops_.contains(names_[home])) {
    home = target_.calls()[home].parent;
  }
  return home;
}

int32_t CallDifferences::TargetOf(int32_t golden) const {
  if (target_of_[golden] != kNone) return target_of_[golden];
  // All of its tensors may lack counterparts.
  const CallTree::Call& of = tree_.calls()[golden];
  const auto found = target_by_name_.find({of.number, of.op, of.is_backward});
  return found == target_by_name_.end() ? kNone : found->second;
}

bool CallDifferences::IsLoneGolden(int32_t call) const {
  return target_of_[call] == kNone;
}

int CallDifferences::CountOf(const std::map<Place, int>& counts, int32_t home,
                             std::string_view op, bool is_backward) const {
  const auto found = counts.find({home, op, is_backward});
  return found == counts.end() ? 0 : found->second;
}

void CallDifferences::AddGolden(int32_t scope, int32_t after, int32_t event,
                                OpCallsByName& between) const {
  const int32_t receiver = tree_.event(event).call;
  const int32_t begin = after == kNone ? 0 : tree_.calls()[after].last + 1;
  for (int32_t i = begin; i < event; ++i) {
    const int32_t number = tree_.event(i).call;
    const CallTree::Call& call = tree_.calls()[number];
    if (call.first != i || number == receiver || GoldenHome(number) != scope ||
        call.is_backward != tree_.calls()[receiver].is_backward) {
      continue;
    }
    OpCalls& of = between[call.op];
    ++of.golden;
    of.has_lone_golden =
        of.has_lone_golden || (IsLoneGolden(number) && call.parent == scope);
  }
}

uint64_t CallDifferences::TargetEndOf(int32_t call) const {
  const CallTree::Call& of = tree_.calls()[call];
  for (int32_t i = of.last; i >= of.first && i != kNone; --i) {
    if (tree_.event(i).call == call && pairs_[i].target != nullptr) {
      return pairs_[i].target->sequence;
    }
  }
  return 0;
}

void CallDifferences::AddTarget(int32_t scope, int32_t after, int32_t event,
                                OpCallsByName& between) const {
  const int32_t receiver = tree_.event(event).call;
  const auto& calls = target_.calls();
  const auto add = [&](int32_t number) {
    const CallNesting::Call& call = calls[number];
    const bool is_of_code =
        call.first != kNone && golden_of_[number] != receiver &&
        TargetHome(number) == scope &&
        call.is_backward == tree_.calls()[receiver].is_backward;
    if (!is_of_code) return;
    OpCalls& of = between[names_[number]];
    ++of.target;
    of.has_lone_target = of.has_lone_target ||
                         (golden_of_[number] == kNone && call.parent == scope);
  };
  auto first = begun_.begin();
  if (after != kNone) {
    first = std::upper_bound(begun_.begin(), begun_.end(), TargetEndOf(after));
    // A wrapper around the part ends after it.
    int32_t wrapper = target_of_[after];
    while (wrapper != kNone && wrapper != scope) {
      if (wrapper != target_of_[after]) add(wrapper);
      wrapper = calls[wrapper].parent;
    }
  }
  const uint64_t end = pairs_[event].target->sequence;
  for (; first != begun_.end() && *first < end; ++first) {
    add(static_cast<int32_t>(first - begun_.begin()));
  }
}

std::vector<std::string> CallDifferences::NotesOn(int32_t scope, int32_t after,
                                                  int32_t event,
                                                  bool may_lack_records) const {
  const int32_t target_scope = scope == kNone ? kNone : TargetOf(scope);
  const bool has_target = pairs_[event].target != nullptr &&
                          (scope == kNone || target_scope != kNone);
  OpCallsByName between;
  AddGolden(scope, after, event, between);
  if (has_target) AddTarget(target_scope, after, event, between);
  const bool is_backward = tree_.calls()[tree_.event(event).call].is_backward;
  std::vector<std::string_view> only_golden;
  std::vector<std::string_view> only_target;
  std::vector<std::string> more_golden;
  std::vector<std::string> more_target;
  for (const auto& [op, of] : between) {
    const int golden = CountOf(golden_counts_, scope, op, is_backward);
    int target = CountOf(target_counts_, target_scope, op, is_backward);
    // Without the code of the target run, it is unknown where it makes calls.
    if (!has_target && target_ops_.contains(op)) target = golden;
    const bool is_other =
        of.golden != of.target || of.has_lone_golden || of.has_lone_target;
    if (target == 0) {
      if (of.has_lone_golden) AddName(op, only_golden);
    } else if (golden == 0) {
      if (of.has_lone_target) AddName(op, only_target);
    } else if (golden != target && is_other && !may_lack_records) {
      auto& more = golden > target ? more_golden : more_target;
      if (more.size() == kCallNamesMax) continue;
      more.push_back(
          golden > target
              ? fmt::format("{} ({}, target {})", op, golden, target)
              : fmt::format("{} ({}, golden {})", op, target, golden));
    }
  }
  std::vector<std::string> notes;
  AddNote("only golden calls", only_golden, notes);
  AddNote("only target calls", only_target, notes);
  AddNote("golden makes more calls of", more_golden, notes);
  AddNote("target makes more calls of", more_target, notes);
  return notes;
}

}  // namespace msitd::compare
