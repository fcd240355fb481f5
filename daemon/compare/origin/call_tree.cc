// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/call_tree.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// Maximum number of names in a message.
constexpr size_t kNamesMax = 4;

void AddName(std::string_view name, std::vector<std::string>& names) {
  if (names.size() < kNamesMax &&
      std::find(names.begin(), names.end(), name) == names.end()) {
    names.emplace_back(name);
  }
}

}  // namespace

CallTree::CallTree(const std::vector<TensorPair>& pairs) : pairs_(pairs) {
  AddEvents();
  FindParts();
  FindSame();
}

void CallTree::AddEvents() {
  std::vector<bool> is_matched;
  for (const TensorPair& pair : pairs_) {
    if (pair.golden == nullptr) break;
    const TensorKey& key = pair.golden->key;
    Event& event = events_.emplace_back();
    event.call = nesting_.Add(key.op, key.call, key.io);
    event.role = CallNesting::RoleOf(key.io);
    is_matched.resize(nesting_.calls().size());
    if (event.role == Role::kWeight || event.role == Role::kOther) continue;
    if (pair.target != nullptr) is_matched[event.call] = true;
  }
  nesting_.FindParents();
  std::map<std::pair<std::string_view, int32_t>, int32_t> forward_calls;
  for (const CallNesting::Call& call : nesting_.calls()) {
    const bool matched = is_matched[calls_.size()];
    if (!call.is_backward) {
      forward_calls.emplace(std::pair(call.op, call.number),
                            static_cast<int32_t>(calls_.size()));
    }
    calls_.push_back({call, matched});
  }
  for (Call& call : calls_) {
    const auto forward = forward_calls.find({call.op, call.number});
    if (call.is_backward && forward != forward_calls.end()) {
      call.forward = forward->second;
    }
  }
}

void CallTree::FindParts() {
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
        CallNesting::IsBackward(key.io) == of.is_backward &&
        CallNesting::RoleOf(key.io) == Role::kInput) {
      AddName(key.index, names);
    }
  }
  return names;
}

}  // namespace msitd::compare
