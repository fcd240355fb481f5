// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/call_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// Maximum number of names in a message.
constexpr size_t kNamesMax = 4;

// Maximum depth of nested calls that is considered. No model has more, and each
// level takes a step.
constexpr int kDepthMax = 256;

Role RoleOf(Io io) {
  switch (io) {
    case Io::kInput:
    case Io::kGradOutput:
      return Role::kInput;
    case Io::kOutput:
    case Io::kGradInput:
    case Io::kGradWeight:
      return Role::kOutput;
    case Io::kWeight:
    case Io::kState:
      return Role::kWeight;
    default:
      return Role::kOther;
  }
}

bool IsBackward(Io io) {
  return io == Io::kGradOutput || io == Io::kGradInput || io == Io::kGradWeight;
}

std::string OpKey(std::string_view op, bool is_backward) {
  return fmt::format("{}{}{}", op, '\0', is_backward ? 'b' : 'f');
}

void AddName(std::string_view name, std::vector<std::string>& names) {
  if (names.size() < kNamesMax &&
      std::find(names.begin(), names.end(), name) == names.end()) {
    names.emplace_back(name);
  }
}

bool IsPartOf(std::string_view op, std::string_view whole) {
  return op.size() > whole.size() + 1 && op[whole.size()] == '.' &&
         op.compare(0, whole.size(), whole) == 0;
}

}  // namespace

CallTree::CallTree(const std::vector<TensorPair>& pairs) : pairs_(pairs) {
  AddEvents();
  FindParents();
  FindSame();
}

void CallTree::AddEvents() {
  std::unordered_map<std::string, int32_t> numbers;
  for (const TensorPair& pair : pairs_) {
    if (pair.golden == nullptr) break;
    const TensorKey& key = pair.golden->key;
    const bool backward = IsBackward(key.io);
    const auto [found, is_new] = numbers.try_emplace(
        fmt::format("{}{}{}", OpKey(key.op, backward), '\0', key.call),
        static_cast<int32_t>(calls_.size()));
    if (is_new) {
      Call& call = calls_.emplace_back();
      call.op = key.op;
      call.number = key.call;
      call.is_backward = backward;
    }
    const auto position = static_cast<int32_t>(events_.size());
    Event& event = events_.emplace_back();
    event.call = found->second;
    event.role = RoleOf(key.io);
    Call& call = calls_[event.call];
    if (event.role == Role::kWeight || event.role == Role::kOther) continue;
    if (call.first == kNone) call.first = position;
    call.last = position;
    call.has_input = call.has_input || event.role == Role::kInput;
    call.has_output = call.has_output || event.role == Role::kOutput;
    call.is_matched = call.is_matched || pair.target != nullptr;
    has_inputs_ = has_inputs_ || event.role == Role::kInput;
  }
}

bool CallTree::Contains(const Call& outer, const Call& inner) const {
  if (&outer == &inner || outer.first == kNone || inner.first == kNone) {
    return false;
  }
  // Without recorded inputs, it is unknown where a call began. Without recorded
  // outputs, it is unknown where it ended.
  return (!outer.has_input || outer.first < inner.first) &&
         (!outer.has_output || outer.last > inner.last);
}

int32_t CallTree::ParentByName(const Call& call) const {
  for (size_t dot = call.op.rfind('.');
       dot != std::string_view::npos && dot > 0;
       dot = call.op.rfind('.', dot - 1)) {
    const auto found =
        calls_by_op_.find(OpKey(call.op.substr(0, dot), call.is_backward));
    if (found == calls_by_op_.end()) continue;
    const std::vector<int32_t>& calls = found->second;
    // Only the first call that ends after `call` can contain it.
    const auto around = std::upper_bound(
        calls.begin(), calls.end(), call.last,
        [this](int32_t last, int32_t c) { return last < calls_[c].last; });
    if (around != calls.end() && Contains(calls_[*around], call)) {
      return *around;
    }
    // If its outputs were not recorded, the call before that one can still be
    // open.
    if (around != calls.begin() && !calls_[*std::prev(around)].has_output &&
        Contains(calls_[*std::prev(around)], call)) {
      return *std::prev(around);
    }
  }
  return kNone;
}

void CallTree::FindParents() {
  std::vector<int32_t> order(calls_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [this](int32_t c) { return calls_[c].first == kNone; });
  std::sort(order.begin(), order.end(), [this](int32_t a, int32_t b) {
    return calls_[a].first < calls_[b].first;
  });
  for (const int32_t c : order) {
    calls_by_op_[OpKey(calls_[c].op, calls_[c].is_backward)].push_back(c);
  }
  if (!order.empty()) first_call_ = order.front();
  // The calls that contain the current position and have recorded inputs and
  // outputs. The innermost is last.
  std::vector<int32_t> open;
  for (const int32_t c : order) {
    Call& call = calls_[c];
    while (!open.empty() && calls_[open.back()].last < call.first) {
      open.pop_back();
    }
    int32_t around = kNone;
    for (size_t i = open.size(), end = i < kDepthMax ? 0 : i - kDepthMax;
         i > end && around == kNone; --i) {
      if (calls_[open[i - 1]].last > call.last) around = open[i - 1];
    }
    const int32_t named = ParentByName(call);
    const bool named_is_inner =
        named != kNone && (around == kNone || !calls_[named].has_input ||
                           !calls_[named].has_output ||
                           calls_[named].first >= calls_[around].first);
    call.parent = named_is_inner ? named : around;
    // If names and intervals contradict each other, parents must not form a
    // cycle.
    if (call.parent != kNone && IsWithin(call.parent, c)) call.parent = kNone;
    if (call.has_input && call.has_output) open.push_back(c);
  }
  std::unordered_set<std::string_view> matched_ops;
  for (const Call& call : calls_) {
    if (call.is_matched) matched_ops.insert(call.op);
  }
  for (const Call& call : calls_) {
    if (call.parent == kNone) continue;
    Call& parent = calls_[call.parent];
    parent.has_parts = true;
    parent.has_matched_parts = parent.has_matched_parts || call.is_matched;
  }
  for (Call& call : calls_) {
    call.has_lone_parts = call.has_parts && !call.has_matched_parts;
  }
  for (const Call& call : calls_) {
    if (call.parent == kNone || matched_ops.contains(call.op)) continue;
    calls_[call.parent].has_lone_parts = false;
  }
}

void CallTree::FindSame() {
  std::unordered_map<uint64_t, int32_t> last_with;
  for (size_t i = 0; i < events_.size(); ++i) {
    const TensorPair& pair = pairs_[i];
    if (pair.target == nullptr || !HasHash(*pair.golden) ||
        !HasHash(*pair.target)) {
      continue;
    }
    const auto is_same = [&pair](const TensorPair& other) {
      return other.golden->hash == pair.golden->hash &&
             other.target->hash == pair.target->hash;
    };
    const uint64_t mixed =
        pair.golden->hash.low * 0x9e3779b97f4a7c15 ^ pair.target->hash.low;
    const auto [found, is_new] =
        last_with.try_emplace(mixed, static_cast<int32_t>(i));
    if (is_new) continue;
    if (is_same(pairs_[found->second])) events_[i].same = found->second;
    found->second = static_cast<int32_t>(i);
  }
}

bool CallTree::IsWithin(int32_t call, int32_t ancestor) const {
  if (ancestor == kNone) return true;
  for (int depth = 0; call != kNone && depth < kDepthMax; ++depth) {
    if (call == ancestor) return true;
    call = calls_[call].parent;
  }
  return false;
}

int32_t CallTree::LastPartBefore(int32_t scope, int32_t event) const {
  for (int32_t i = event - 1; i >= 0; --i) {
    int32_t call = events_[i].call;
    if (events_[i].role == Role::kWeight || calls_[call].first == kNone) {
      continue;
    }
    if (call == scope) return kNone;
    while (call != kNone && calls_[call].parent != scope) {
      call = calls_[call].parent;
    }
    if (call == kNone) return kNone;
    if (calls_[call].is_matched && calls_[call].last < event) return call;
  }
  return kNone;
}

bool CallTree::IsLoneInput(size_t event) const {
  return events_[event].role == Role::kInput &&
         pairs_[event].target == nullptr &&
         calls_[events_[event].call].is_matched;
}

std::vector<std::string> CallTree::LoneGoldenInputs(int32_t call) const {
  std::vector<std::string> names;
  const Call& of = calls_[call];
  for (int32_t i = of.first; i != kNone && i <= of.last; ++i) {
    if (events_[i].call == call && IsLoneInput(i)) {
      AddName(pairs_[i].golden->key.index, names);
    }
  }
  return names;
}

std::vector<std::string> CallTree::LoneTargetInputs(int32_t call) const {
  // The target call can have another number than the golden call. The tensors
  // of the call show which.
  const TensorKey* there = nullptr;
  const Call& of = calls_[call];
  for (int32_t i = of.first; i != kNone && i <= of.last; ++i) {
    if (events_[i].call == call && pairs_[i].target != nullptr) {
      there = &pairs_[i].target->key;
    }
  }
  std::vector<std::string> names;
  for (size_t i = events_.size(); i < pairs_.size() && there; ++i) {
    const TensorKey& key = pairs_[i].target->key;
    if (key.op == there->op && key.call == there->call &&
        IsBackward(key.io) == of.is_backward &&
        RoleOf(key.io) == Role::kInput) {
      AddName(key.index, names);
    }
  }
  return names;
}

std::vector<std::string> CallTree::OnlyGolden(int32_t scope, int32_t after,
                                              int32_t event) const {
  std::vector<std::string> names;
  const int32_t begin = after == kNone ? 0 : calls_[after].last;
  for (int32_t i = begin; i < event; ++i) {
    const Call& call = calls_[events_[i].call];
    if (call.first != kNone && !call.is_matched && call.parent == scope) {
      AddName(call.op, names);
    }
  }
  return names;
}

std::vector<std::string> CallTree::OnlyTarget(int32_t scope, int32_t after,
                                              int32_t event) const {
  std::vector<std::string> names;
  const TensorPair& end = pairs_[event];
  const TensorPair* begin =
      after == kNone ? nullptr : &pairs_[calls_[after].last];
  if (end.target == nullptr) return names;
  for (size_t i = events_.size(); i < pairs_.size(); ++i) {
    const LogicalTensor& target = *pairs_[i].target;
    const bool is_between = target.sequence < end.target->sequence &&
                            (begin == nullptr || begin->target == nullptr ||
                             target.sequence > begin->target->sequence);
    if (is_between && RoleOf(target.key.io) != Role::kWeight &&
        (scope == kNone || IsPartOf(target.key.op, calls_[scope].op))) {
      AddName(target.key.op, names);
    }
  }
  return names;
}

}  // namespace msitd::compare
