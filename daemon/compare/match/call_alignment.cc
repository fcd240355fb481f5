// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/call_alignment.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "daemon/calls/torch_function.h"
#include "daemon/compare/match/stretch_aligner.h"

namespace msitd::compare {
namespace {

bool IsOfCall(Io io) {
  return io == Io::kInput || io == Io::kOutput || IsOfBackwardCall(io);
}

// The tensors of an op in one run.
class OpTensors {
 public:
  void Add(const CallTensor& tensor) {
    const std::string& name = tensor.tensor->key.op;
    if (tensors_.empty()) name_ = &name;
    has_several_names_ = has_several_names_ || name != *name_;
    tensors_.push_back(tensor);
  }

  // Sorts the tensors by key. Must be called once, after all were added.
  void Sort() {
    std::sort(tensors_.begin(), tensors_.end(),
              [](const CallTensor& a, const CallTensor& b) {
                return Order(a) < Order(b);
              });
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (i == 0 || tensors_[i].call() != tensors_[i - 1].call()) {
        starts_.push_back(i);
      }
    }
  }

  size_t call_count() const { return starts_.size(); }
  bool is_called_once() const { return starts_.size() == 1; }
  std::span<const CallTensor> tensors() const { return tensors_; }

  // Returns whether call numbers begin with the same number in both runs and
  // have no gaps, and each run has a single op of this name.
  static bool AreNumbered(const OpTensors& golden, const OpTensors& target) {
    return golden.HasNoGaps() && target.HasNoGaps() &&
           golden.tensors_.front().call() == target.tensors_.front().call();
  }

  // The calls in execution order.
  std::vector<OpCall> Calls() const {
    std::vector<OpCall> out;
    for (size_t i = 0; i < starts_.size(); ++i) {
      const size_t end =
          i + 1 < starts_.size() ? starts_[i + 1] : tensors_.size();
      const std::span<const CallTensor> of_call =
          tensors().subspan(starts_[i], end - starts_[i]);
      OpCall call{of_call.front().call(), of_call, of_call.front().position};
      for (const CallTensor& tensor : of_call) {
        call.begin = std::min(call.begin, tensor.position);
      }
      out.push_back(call);
    }
    std::sort(out.begin(), out.end(), [](const OpCall& a, const OpCall& b) {
      return a.begin < b.begin;
    });
    return out;
  }

 private:
  static std::tuple<int32_t, Io, const std::string&, const std::string&, size_t>
  Order(const CallTensor& tensor) {
    const TensorKey& key = tensor.tensor->key;
    return {key.call, key.io, key.index, key.device, tensor.position};
  }

  bool HasNoGaps() const {
    if (tensors_.empty() || has_several_names_) return false;
    const int64_t span =
        int64_t{tensors_.back().call()} - tensors_.front().call() + 1;
    return span == static_cast<int64_t>(call_count());
  }

  const std::string* name_ = nullptr;  // The op of the first tensor.
  bool has_several_names_ = false;
  std::vector<CallTensor> tensors_;
  std::vector<size_t> starts_;  // First tensor of each call.
};

// An op in both runs.
struct Op {
  OpTensors golden;
  OpTensors target;

  bool has_equal_counts() const {
    return golden.call_count() == target.call_count();
  }
  bool is_function() const {
    return IsTorchFunction(golden.tensors().front().tensor->key.op);
  }
  bool is_to_align() const {
    return !has_equal_counts() && OpTensors::AreNumbered(golden, target);
  }
};

// Positions of the same tensor in both runs.
struct Landmark {
  size_t golden = 0;
  size_t target = 0;
};

// Adds landmarks for the tensors that occur once in both runs. If the op is
// called several times, adds only the first one of each call.
void AddLandmarks(const Op& op, bool with_device, std::vector<Landmark>& out) {
  const bool has_one_call = op.golden.is_called_once();
  std::optional<int32_t> last_call;
  const auto key_of = [with_device](const CallTensor& tensor) {
    static const std::string kNoDevice;
    const TensorKey& key = tensor.tensor->key;
    return std::tie(key.call, key.io, key.index,
                    with_device ? key.device : kNoDevice);
  };
  const auto golden = op.golden.tensors();
  const auto target = op.target.tensors();
  const auto end_of_key = [&](std::span<const CallTensor> tensors,
                              size_t begin) {
    size_t end = begin + 1;
    while (end < tensors.size() &&
           key_of(tensors[end]) == key_of(tensors[begin]))
      ++end;
    return end;
  };
  for (size_t i = 0, j = 0; i < golden.size() && j < target.size();) {
    if (key_of(golden[i]) < key_of(target[j])) {
      ++i;
    } else if (key_of(target[j]) < key_of(golden[i])) {
      ++j;
    } else {
      const size_t golden_end = end_of_key(golden, i);
      const size_t target_end = end_of_key(target, j);
      const bool is_new = has_one_call || last_call != golden[i].call();
      if (golden_end - i == 1 && target_end - j == 1 && is_new) {
        out.push_back({golden[i].position, target[j].position});
        last_call = golden[i].call();
      }
      i = golden_end;
      j = target_end;
    }
  }
}

// Keeps the longest sequence that ascends in both runs, which is a longest
// increasing subsequence.
void KeepCommonOrder(std::vector<Landmark>& landmarks) {
  std::sort(
      landmarks.begin(), landmarks.end(),
      [](const Landmark& a, const Landmark& b) { return a.golden < b.golden; });
  // The last landmark of the best sequence of each length.
  std::vector<size_t> ends;
  std::vector<std::optional<size_t>> previous(landmarks.size());
  for (size_t i = 0; i < landmarks.size(); ++i) {
    const auto at = std::lower_bound(
        ends.begin(), ends.end(), landmarks[i].target,
        [&](size_t end, size_t to) { return landmarks[end].target < to; });
    if (at != ends.begin()) previous[i] = *std::prev(at);
    if (at == ends.end()) {
      ends.push_back(i);
    } else {
      *at = i;
    }
  }
  std::vector<Landmark> kept;
  if (!ends.empty()) {
    for (std::optional<size_t> i = ends.back(); i.has_value();
         i = previous[*i]) {
      kept.push_back(landmarks[*i]);
    }
  }
  std::reverse(kept.begin(), kept.end());
  landmarks = std::move(kept);
}

// Returns how many of the landmarks are before a position of the golden or the
// target run. `side` is the position of a landmark in that run.
size_t StretchOf(const std::vector<Landmark>& landmarks, size_t Landmark::*side,
                 size_t position) {
  const auto at =
      std::lower_bound(landmarks.begin(), landmarks.end(), position,
                       [side](const Landmark& landmark, size_t position) {
                         return landmark.*side < position;
                       });
  return static_cast<size_t>(at - landmarks.begin());
}

using Stretch = std::span<const OpCall>;

// Removes the calls of the first stretch from `calls` and returns them.
Stretch ConsumeStretch(size_t stretch, Stretch& calls) {
  const auto end = std::find_if(
      calls.begin(), calls.end(),
      [stretch](const OpCall& call) { return call.stretch != stretch; });
  const auto count = static_cast<size_t>(end - calls.begin());
  const Stretch out = calls.first(count);
  calls = calls.subspan(count);
  return out;
}

// Maps target calls of an op to golden calls.
using Numbers = std::unordered_map<int32_t, int32_t>;

// Pairs calls that still have no counterpart by their numbers. The two runs may
// have made them in another order.
void PairRest(const std::vector<OpCall>& golden,
              const std::vector<OpCall>& target, Numbers& numbers) {
  std::unordered_set<int32_t> rest;
  for (const OpCall& call : golden) rest.insert(call.number);
  for (const auto& [target_call, golden_call] : numbers) {
    rest.erase(golden_call);
  }
  for (const OpCall& call : target) {
    if (!numbers.contains(call.number) && rest.contains(call.number)) {
      numbers.emplace(call.number, call.number);
    }
  }
}

Numbers Align(const Op& op, const std::vector<Landmark>& landmarks,
              StretchAligner& aligner) {
  std::vector<OpCall> golden = op.golden.Calls();
  std::vector<OpCall> target = op.target.Calls();
  for (OpCall& call : golden) {
    call.stretch = StretchOf(landmarks, &Landmark::golden, call.begin);
  }
  for (OpCall& call : target) {
    call.stretch = StretchOf(landmarks, &Landmark::target, call.begin);
  }
  std::vector<CallPair> pairs;
  Stretch golden_rest = golden;
  Stretch target_rest = target;
  while (!golden_rest.empty() && !target_rest.empty()) {
    const size_t stretch =
        std::min(golden_rest.front().stretch, target_rest.front().stretch);
    const Stretch of_golden = ConsumeStretch(stretch, golden_rest);
    const Stretch of_target = ConsumeStretch(stretch, target_rest);
    aligner.Align(of_golden, of_target, pairs);
  }
  Numbers out;
  for (const CallPair& pair : pairs) out.emplace(pair.target, pair.golden);
  PairRest(golden, target, out);
  return out;
}

// All ops of both runs.
class Ops {
 public:
  Ops(const MatchRules& rules, const PairingSides& sides,
      const Partners& partners) {
    const auto op_of = [&](std::string name,
                           const LogicalTensor& tensor) -> Op& {
      // msprobe numbers backward calls separately.
      if (rules.backward_order() && IsOfBackwardCall(tensor.key.io)) {
        name += '\0';
      }
      if (sides.with_device && tensor.assembly == nullptr) {
        name += '\0' + tensor.key.device;
      }
      return ops_[std::move(name)];
    };
    for (size_t i = 0; i < sides.golden.size(); ++i) {
      const TensorKey& key = sides.golden[i].key;
      if (!IsOfCall(key.io) || !partners.IsGoldenFree(i)) continue;
      op_of(rules.KeyOfGolden(key.op), sides.golden[i])
          .golden.Add({&sides.golden[i], i});
    }
    for (size_t i = 0; i < sides.target.size(); ++i) {
      const TensorKey& key = sides.target[i].key;
      if (!IsOfCall(key.io) || !partners.IsTargetFree(i)) continue;
      op_of(rules.KeyOfTarget(key.op), sides.target[i])
          .target.Add({&sides.target[i], i});
    }
    for (auto& [name, op] : ops_) {
      op.golden.Sort();
      op.target.Sort();
    }
  }

  std::vector<const Op*> ToAlign(CallPairing calls) const {
    std::vector<const Op*> out;
    for (const auto& [name, op] : ops_) {
      if (!op.is_to_align()) continue;
      if (calls == CallPairing::kFunctionsByPlace && !op.is_function()) {
        continue;
      }
      out.push_back(&op);
    }
    return out;
  }

  std::vector<Landmark> Landmarks(bool with_device) const {
    std::vector<Landmark> once;
    for (const auto& [name, op] : ops_) {
      if (op.has_equal_counts() && op.golden.is_called_once()) {
        AddLandmarks(op, with_device, once);
      }
    }
    KeepCommonOrder(once);
    std::vector<Landmark> out = once;
    for (const auto& [name, op] : ops_) {
      if (!op.has_equal_counts() || op.golden.is_called_once()) continue;
      std::vector<Landmark> several;
      AddLandmarks(op, with_device, several);
      const bool is_shifted = std::any_of(
          several.begin(), several.end(), [&once](const Landmark& at) {
            return StretchOf(once, &Landmark::golden, at.golden) !=
                   StretchOf(once, &Landmark::target, at.target);
          });
      if (!is_shifted) out.insert(out.end(), several.begin(), several.end());
    }
    KeepCommonOrder(out);
    return out;
  }

 private:
  std::unordered_map<std::string, Op> ops_;
};

}  // namespace

CallAlignment::CallAlignment(const MatchRules& rules, const PairingSides& sides,
                             const Partners& partners)
    : target_(sides.target) {
  if (sides.calls == CallPairing::kByNumber) return;
  const Ops ops(rules, sides, partners);
  const std::vector<const Op*> to_align = ops.ToAlign(sides.calls);
  if (to_align.empty()) return;
  const std::vector<Landmark> landmarks = ops.Landmarks(sides.with_device);
  golden_calls_.reserve(sides.target.size());
  for (const LogicalTensor& target : sides.target) {
    golden_calls_.emplace_back(target.key.call);
  }
  StretchAligner aligner;
  for (const Op* const op : to_align) {
    const Numbers numbers = Align(*op, landmarks, aligner);
    for (const CallTensor& tensor : op->target.tensors()) {
      const auto golden = numbers.find(tensor.call());
      golden_calls_[tensor.position] = golden == numbers.end()
                                           ? std::nullopt
                                           : std::optional(golden->second);
    }
  }
}

std::optional<int32_t> CallAlignment::GoldenCallOf(size_t target) const {
  if (golden_calls_.empty()) return target_[target].key.call;
  return golden_calls_[target];
}

}  // namespace msitd::compare
