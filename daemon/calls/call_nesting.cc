// SPDX-License-Identifier: Apache-2.0
#include "daemon/calls/call_nesting.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace msitd {
namespace {

// Maximum depth of nested calls that is considered. No model has more, and each
// level takes a step.
constexpr int kDepthMax = 256;

// Maximum number of prefixes of a name that are looked up. Names are foreign
// and can consist of dots, and each lookup takes time in proportion to the
// length of the name.
constexpr int kNameLevelsMax = 64;

// Number of calls after which FindParents checks whether it is stopped.
constexpr size_t kCallsPerCheck = 4096;

}  // namespace

CallNesting::Role CallNesting::RoleOf(Io io) {
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

bool CallNesting::IsBackward(Io io) {
  return io == Io::kGradOutput || io == Io::kGradInput || io == Io::kGradWeight;
}

int32_t CallNesting::NumberOf(std::string_view op) {
  return ops_.try_emplace(op, static_cast<int32_t>(ops_.size())).first->second;
}

int32_t CallNesting::Add(std::string_view op, int32_t call, Io io) {
  const bool backward = IsBackward(io);
  const int32_t number = NumberOf(op);
  const uint64_t key = uint64_t{static_cast<uint32_t>(number)} << 32 |
                       uint64_t{static_cast<uint32_t>(call)} << 1 |
                       static_cast<uint64_t>(backward);
  const auto [found, is_new] =
      call_of_key_.try_emplace(key, static_cast<int32_t>(calls_.size()));
  if (is_new) {
    Call& added = calls_.emplace_back();
    added.op = op;
    added.number = call;
    added.is_backward = backward;
    op_of_call_.push_back(number);
  }
  const int32_t position = event_count_++;
  const Role role = RoleOf(io);
  if (role == Role::kWeight || role == Role::kOther) return found->second;
  Call& of = calls_[found->second];
  if (of.first == kNone) of.first = position;
  of.last = position;
  of.has_input = of.has_input || role == Role::kInput;
  of.has_output = of.has_output || role == Role::kOutput;
  has_inputs_ = has_inputs_ || role == Role::kInput;
  return found->second;
}

bool CallNesting::Contains(const Call& outer, const Call& inner) {
  if (&outer == &inner || outer.first == kNone || inner.first == kNone) {
    return false;
  }
  // Without recorded inputs, it is unknown where a call began. Without recorded
  // outputs, it is unknown where it ended.
  return (!outer.has_input || outer.first < inner.first) &&
         (!outer.has_output || outer.last > inner.last);
}

const std::vector<int32_t>& CallNesting::CallsOf(int32_t op,
                                                 bool is_backward) const {
  return calls_by_op_[2 * static_cast<size_t>(op) + (is_backward ? 1 : 0)];
}

int32_t CallNesting::ParentByName(int32_t c) const {
  const Call& call = calls_[c];
  int level = 0;
  for (size_t dot = call.op.rfind('.');
       dot != std::string_view::npos && dot > 0 && level < kNameLevelsMax;
       dot = call.op.rfind('.', dot - 1), ++level) {
    const auto found = ops_.find(call.op.substr(0, dot));
    if (found == ops_.end()) continue;
    const std::vector<int32_t>& calls =
        CallsOf(found->second, call.is_backward);
    // Only the first call that ends after `call` can contain it.
    const auto around = std::upper_bound(
        calls.begin(), calls.end(), call.last,
        [this](int32_t last, int32_t of) { return last < calls_[of].last; });
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

int32_t CallNesting::ParentByInterval(const std::vector<int32_t>& open,
                                      const Call& call) const {
  const size_t end = open.size() < kDepthMax ? 0 : open.size() - kDepthMax;
  for (size_t i = open.size(); i > end; --i) {
    if (calls_[open[i - 1]].last > call.last) return open[i - 1];
  }
  return kNone;
}

void CallNesting::FindParents(absl::FunctionRef<bool()> is_stopped) {
  calls_by_op_.resize(2 * ops_.size());
  std::vector<int32_t> order(calls_.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [this](int32_t c) { return calls_[c].first == kNone; });
  std::sort(order.begin(), order.end(), [this](int32_t a, int32_t b) {
    return calls_[a].first < calls_[b].first;
  });
  for (const int32_t c : order) {
    const size_t op = static_cast<size_t>(op_of_call_[c]);
    calls_by_op_[2 * op + (calls_[c].is_backward ? 1 : 0)].push_back(c);
  }
  if (!order.empty()) first_call_ = order.front();
  // The calls that contain the current position and have recorded inputs and
  // outputs. The innermost is last.
  std::vector<int32_t> open;
  size_t count = 0;
  for (const int32_t c : order) {
    if (count++ % kCallsPerCheck == 0 && is_stopped()) return;
    Call& call = calls_[c];
    while (!open.empty() && calls_[open.back()].last < call.first) {
      open.pop_back();
    }
    const int32_t around = ParentByInterval(open, call);
    const int32_t named = ParentByName(c);
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
}

bool CallNesting::IsWithin(int32_t call, int32_t ancestor) const {
  if (ancestor == kNone) return true;
  for (int depth = 0; call != kNone && depth < kDepthMax; ++depth) {
    if (call == ancestor) return true;
    call = calls_[call].parent;
  }
  return false;
}

}  // namespace msitd
