// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/call_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

namespace msitd::compare {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// Returns whether some call of the op has tensors in only one run.
bool HasLoneCalls(const std::vector<TensorPair>& pairs, std::string_view op) {
  return std::any_of(pairs.begin(), pairs.end(), [op](const TensorPair& pair) {
    return (pair.golden == nullptr && pair.target->key.op == op) ||
           (pair.target == nullptr && pair.golden->key.op == op);
  });
}

// Returns for each call when the target run began it; kNever if it has not.
std::vector<uint64_t> TargetBeginnings(const CallTree& tree,
                                       const std::vector<TensorPair>& pairs) {
  std::vector<uint64_t> out(tree.calls().size(), kNever);
  for (size_t i = 0; i < tree.event_count(); ++i) {
    const CallTree::Event& event = tree.event(i);
    if (event.role == CallTree::Role::kWeight || pairs[i].target == nullptr) {
      continue;
    }
    uint64_t& begin = out[event.call];
    begin = std::min(begin, pairs[i].target->sequence);
  }
  return out;
}

}  // namespace

std::string CallOrderNote(const CallTree& tree,
                          const std::vector<TensorPair>& pairs, size_t pair) {
  if (pair >= tree.event_count() ||
      tree.event(pair).role != CallTree::Role::kInput) {
    return "";
  }
  const auto& calls = tree.calls();
  const int32_t call = tree.event(pair).call;
  if (calls[call].is_backward) return "";
  const std::vector<uint64_t> begin = TargetBeginnings(tree, pairs);
  int32_t nearest = CallTree::kNone;
  int32_t distance = std::numeric_limits<int32_t>::max();
  for (int32_t other = 0; other < static_cast<int32_t>(calls.size()); ++other) {
    const CallTree::Call& of = calls[other];
    if (other == call || of.parent != calls[call].parent || of.is_backward ||
        of.first == CallTree::kNone || begin[other] == kNever ||
        of.op == calls[call].op) {
      continue;
    }
    const bool is_before = of.first < calls[call].first;
    if (is_before == (begin[other] < begin[call])) continue;
    const int32_t away = std::abs(of.first - calls[call].first);
    if (away >= distance) continue;
    distance = away;
    nearest = other;
  }
  if (nearest == CallTree::kNone || HasLoneCalls(pairs, calls[call].op) ||
      HasLoneCalls(pairs, calls[nearest].op)) {
    return "";
  }
  const bool is_before = calls[nearest].first < calls[call].first;
  return fmt::format(
      "other order of calls: golden calls {} {} {}, the target {}",
      calls[nearest].op, is_before ? "before" : "after", calls[call].op,
      is_before ? "after it" : "before it");
}

}  // namespace msitd::compare
