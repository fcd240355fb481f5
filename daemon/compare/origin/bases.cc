// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/bases.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "daemon/compare/judge/precision.h"
#include "daemon/compare/origin/call_tree.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

using Role = CallTree::Role;

// The coarsest type that values went through, and the event that has it.
struct Carried {
  DType type = DType::kUnspecified;
  int32_t from = CallTree::kNone;

  void Take(const Carried& other) {
    if (Coarser(type, other.type) != type) *this = other;
  }
};

bool IsEqual(const TensorPair& pair) {
  return pair.golden != nullptr && pair.target != nullptr &&
         pair.golden->shape == pair.target->shape &&
         HashesAgree(*pair.golden, *pair.target);
}

Carried OwnType(const TensorPair& pair, int32_t position) {
  Carried out;
  for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
    if (tensor != nullptr) out.Take({PrecisionOf(*tensor), position});
  }
  return out;
}

// The digits of the pairs of a group that round; 0 if there are none.
struct DigitsOfGroup {
  int fewest = 0;            // All pairs.
  int fewest_different = 0;  // Pairs that are not equal.
  int most_different = 0;
};

DigitsOfGroup DigitsOf(const std::vector<TensorPair>& pairs) {
  DigitsOfGroup out;
  const auto lower = [](int digits, int& fewest) {
    if (fewest == 0 || digits < fewest) fewest = digits;
  };
  for (const TensorPair& pair : pairs) {
    const int digits = RoundedDigits(OwnType(pair, 0).type);
    if (digits == 0) continue;
    lower(digits, out.fewest);
    if (IsEqual(pair)) continue;
    lower(digits, out.fewest_different);
    out.most_different = std::max(out.most_different, digits);
  }
  return out;
}

bool IsNarrowInOneRun(const TensorPair& pair) {
  if (pair.golden == nullptr || pair.target == nullptr) return false;
  const int golden = RoundedDigits(PrecisionOf(*pair.golden));
  const int target = RoundedDigits(PrecisionOf(*pair.target));
  return golden > 0 && target > 0 && golden != target;
}

class BasisFinder {
 public:
  BasisFinder(const std::vector<TensorPair>& pairs, bool is_whole,
              bool has_past, DType past_type, const ReceivedTypes& received)
      : pairs_(pairs),
        is_whole_(is_whole),
        has_past_(has_past),
        tree_(pairs),
        scopes_(tree_.calls().size() + 1),
        given_(tree_.calls().size()),
        carried_(tree_.event_count()),
        past_{past_type, CallTree::kNone},
        received_(received) {}

  std::vector<PairBasis> Find() {
    FindGiven();
    Walk();
    // The types of parameters are known only after those of their gradients.
    if (FindOfParameters()) Walk();
    std::vector<PairBasis> out(pairs_.size());
    for (size_t i = 0; i < carried_.size(); ++i) {
      const auto event = static_cast<int32_t>(i);
      out[i].basis.has_equal_inputs = HasEqualInputs(event);
      const Carried& carried = carried_[i];
      const int own = RoundedDigits(OwnType(pairs_[i], event).type);
      if (own == 0 || RoundedDigits(carried.type) >= own) continue;
      out[i].basis.computed_in = carried.type;
      out[i].from = carried.from;
    }
    return out;
  }

  // Adds the types that the code of each op has received. Requires Find.
  void AddReceived(ReceivedTypes& received) const {
    for (size_t i = 0; i < tree_.calls().size(); ++i) {
      const DType type = scopes_[i + 1].type;
      if (type == DType::kUnspecified) continue;
      const std::string_view op = tree_.calls()[i].op;
      const auto known = received.find(op);
      if (known != received.end()) {
        known->second = Coarser(known->second, type);
      } else if (received.size() < kReceivedOpsMax) {
        received.emplace(op, type);
      }
    }
  }

 private:
  // The inputs and weights of a call.
  struct Given {
    Carried coarsest = {};  // Coarsest type of the inputs.
    bool has_wide_input = false;
    bool has_input = false;
    bool is_equal = true;  // Applies to all inputs and weights.
  };

  Carried& ScopeOf(int32_t call) { return scopes_[call + 1]; }

  bool HasExceptionalTypes() const {
    int64_t outputs = 0;
    int64_t narrow_outputs = 0;
    for (size_t i = 0; i < carried_.size(); ++i) {
      if (tree_.event(i).role != Role::kOutput) continue;
      outputs += pairs_[i].target != nullptr ? 1 : 0;
      narrow_outputs += IsNarrowInOneRun(pairs_[i]) ? 1 : 0;
    }
    return AreExceptions(narrow_outputs, outputs);
  }

  // Returns whether the types of a pair differ by an exception, such as a
  // faulty cast. That is a difference and does not excuse others.
  bool IsExceptional(const TensorPair& pair) const {
    return is_exceptional_ && IsNarrowInOneRun(pair);
  }

  void FindGiven() {
    is_exceptional_ = HasExceptionalTypes();
    for (size_t i = 0; i < carried_.size(); ++i) {
      const CallTree::Event& of = tree_.event(i);
      has_parts_ = has_parts_ || tree_.calls()[of.call].has_parts;
      const LogicalTensor* const target = pairs_[i].target;
      if (target != nullptr) {
        calls_there_[{target->key.op, target->key.call}] = of.call;
      }
      if (of.role != Role::kInput && of.role != Role::kWeight) continue;
      Given& given = given_[of.call];
      const Carried own = OwnType(pairs_[i], static_cast<int32_t>(i));
      given.is_equal = given.is_equal && IsEqual(pairs_[i]);
      if (of.role == Role::kWeight) continue;
      given.has_input = true;
      // Coarser inputs are codes, which the op combines with scales. It
      // computes in a wider type.
      if (RoundedDigits(own.type) >= InfoOf(DType::kBfloat16).digits &&
          !IsExceptional(pairs_[i])) {
        given.coarsest.Take(own);
      }
      given.has_wide_input =
          given.has_wide_input ||
          RoundedDigits(own.type) >= InfoOf(DType::kFloat32).digits;
    }
    // An input that only the target has makes the inputs unequal.
    for (size_t i = carried_.size(); i < pairs_.size(); ++i) {
      const TensorKey& key = pairs_[i].target->key;
      if (key.io != Io::kInput) continue;
      const auto call = calls_there_.find({key.op, key.call});
      if (call != calls_there_.end()) given_[call->second].is_equal = false;
    }
  }

  void Walk() {
    std::fill(scopes_.begin(), scopes_.end(), Carried());
    if (has_past_) ScopeOf(CallTree::kNone) = past_;
    for (size_t i = 0; i < carried_.size(); ++i) {
      const auto event = static_cast<int32_t>(i);
      carried_[i] = OwnType(pairs_[i], event);
      // Integers are not rounded.
      if (RoundedDigits(carried_[i].type) == 0) continue;
      if (IsExceptional(pairs_[i])) carried_[i] = Carried();
      carried_[i].Take(MadeOf(event));
      // It is unknown whether a tensor that only one run has differs.
      if (pairs_[i].target != nullptr && !IsEqual(pairs_[i])) {
        AddToScopes(event);
      }
    }
  }

  // Returns the coarsest type among the sources of `event`.
  Carried MadeOf(int32_t event) {
    const CallTree::Event& of = tree_.event(event);
    if (of.role == Role::kOther) return {};
    const CallTree::Call& call = tree_.calls()[of.call];
    const auto parameters = of_parameters_.find(call.op);
    // State that was recorded after the gradient of its op, such as the
    // accumulated gradient, depends on that gradient. Anything else depends on
    // the gradients of earlier steps.
    const bool is_trained = parameters != of_parameters_.end() &&
                            (has_past_ || FollowsGradient(event));
    if (of.role == Role::kWeight) {
      return is_trained ? parameters->second : Carried();
    }
    if (of.same != CallTree::kNone) return carried_[of.same];
    if (of.role == Role::kInput) return ReceivedBy(call.parent);
    Carried out = call.has_parts ? ReceivedBy(of.call) : OfThisTokenIn(of.call);
    const Given& given = given_[of.call];
    if (!given.has_wide_input) out.Take(given.coarsest);
    if (is_trained) out.Take(parameters->second);
    // The inputs were not recorded. Most likely they are the tensors before
    // this one.
    if (!call.has_input && !call.has_parts) {
      out.Take(ScopeOf(call.parent));
    }
    return out;
  }

  // Returns the coarsest type of the tensors that the code of `call` has
  // received so far. If all of these are equal, the code can have made a
  // difference only from state, which it can have received at earlier tokens.
  Carried ReceivedBy(int32_t call) {
    const Carried received = OfThisTokenIn(call);
    if (received.type != DType::kUnspecified || call == CallTree::kNone ||
        past_.type == DType::kUnspecified) {
      return received;
    }
    const auto past = received_.find(tree_.calls()[call].op);
    return past == received_.end() ? received
                                   : Carried{past->second, CallTree::kNone};
  }

  // The same without earlier tokens. Gradients depend on the tensors of the
  // forward pass, except for those of linear ops.
  Carried OfThisTokenIn(int32_t call) {
    Carried out = ScopeOf(call);
    if (call != CallTree::kNone) {
      const int32_t forward = tree_.calls()[call].forward;
      if (forward != CallTree::kNone) out.Take(ScopeOf(forward));
    }
    return out;
  }

  bool FollowsGradient(int32_t event) const {
    const TensorKey& key = pairs_[event].golden->key;
    if (key.io != Io::kState) return false;
    const auto first =
        first_gradients_.find(tree_.calls()[tree_.event(event).call].op);
    return first != first_gradients_.end() && first->second < event;
  }

  void AddToScopes(int32_t event) {
    const CallTree::Event& of = tree_.event(event);
    const Carried& carried = carried_[event];
    if (of.role != Role::kOutput) ScopeOf(of.call).Take(carried);
    if (of.role == Role::kInput || of.role == Role::kOutput) {
      ScopeOf(tree_.calls()[of.call].parent).Take(carried);
    }
  }

  // Finds the types of the gradients of parameters. Returns whether a gradient
  // of a parameter differs.
  bool FindOfParameters() {
    for (size_t i = 0; i < carried_.size(); ++i) {
      const TensorPair& pair = pairs_[i];
      if (pair.golden->key.io != Io::kGradWeight || IsEqual(pair)) continue;
      const std::string_view op = tree_.calls()[tree_.event(i).call].op;
      of_parameters_[op].Take(carried_[i]);
      first_gradients_.try_emplace(op, static_cast<int32_t>(i));
    }
    return !of_parameters_.empty();
  }

  bool HasEqualInputs(int32_t event) const {
    const CallTree::Event& of = tree_.event(event);
    const CallTree::Call& call = tree_.calls()[of.call];
    const Given& given = given_[of.call];
    // If no call has recorded parts, a call can be a whole network. In a later
    // step, parameters that were not recorded can differ.
    return is_whole_ && has_parts_ && !has_past_ && !call.is_backward &&
           of.role == Role::kOutput && !call.has_parts && given.has_input &&
           given.is_equal;
  }

  const std::vector<TensorPair>& pairs_;
  const bool is_whole_;
  const bool has_past_;
  const CallTree tree_;
  // The coarsest type of the tensors that the code of each call has received so
  // far. The first entry is for CallTree::kNone.
  std::vector<Carried> scopes_;
  std::vector<Given> given_;      // By call.
  std::vector<Carried> carried_;  // By event.
  // Types of the gradients of parameters, by op.
  std::map<std::string_view, Carried> of_parameters_;
  std::map<std::string_view, int32_t> first_gradients_;
  // Golden calls by the op and number of the target call.
  std::map<std::pair<std::string_view, int32_t>, int32_t> calls_there_;
  bool has_parts_ = false;       // Some call has parts.
  bool is_exceptional_ = false;  // See kExceptionalShare.
  const Carried past_;           // The type of earlier tokens.
  const ReceivedTypes& received_;
};

}  // namespace

std::vector<PairBasis> FindBases(const std::vector<TensorPair>& pairs,
                                 bool is_whole, const PastType& past_type,
                                 ReceivedTypes& received) {
  constexpr int kWideDigits = InfoOf(DType::kFloat32).digits;
  const DigitsOfGroup digits = DigitsOf(pairs);
  DType past = DType::kUnspecified;
  if (past_type && digits.most_different >= kWideDigits) past = past_type();
  const int past_digits = RoundedDigits(past);
  const int fewest =
      past_digits > 0 ? std::min(digits.fewest, past_digits) : digits.fewest;
  // Another basis is possible only if some pair that differs has more digits
  // than a type that its values may have gone through.
  const bool has_several = digits.most_different > fewest;
  // Types that are narrower than float32 have tighter default bounds for a
  // single op than for a network.
  const bool has_narrow =
      digits.fewest_different > 0 && digits.fewest_different < kWideDigits;
  if (!has_several && !has_narrow) return {};
  BasisFinder finder(pairs, is_whole, past_type != nullptr, past, received);
  std::vector<PairBasis> out = finder.Find();
  finder.AddReceived(received);
  return out;
}

std::string BasisText(const std::vector<TensorPair>& pairs,
                      const PairBasis& basis) {
  if (basis.from < 0) {
    return basis.basis.computed_in == DType::kUnspecified
               ? ""
               : fmt::format("judged as {}: computed from an earlier token",
                             DTypeName(basis.basis.computed_in));
  }
  const TensorPair& from = pairs[static_cast<size_t>(basis.from)];
  const TensorKey& key =
      (from.golden != nullptr ? from.golden : from.target)->key;
  return fmt::format("judged as {}: computed from {}@{}/{}",
                     DTypeName(basis.basis.computed_in), key.op, IoName(key.io),
                     key.index);
}

}  // namespace msitd::compare
