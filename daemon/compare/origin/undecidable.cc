// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/undecidable.h"

#include <algorithm>
#include <iterator>

#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

bool IsGradient(Io io) { return io == Io::kGradOutput || io == Io::kGradInput; }

// Returns whether an op writes to its first argument without computing with the
// former content.
bool Overwrites(std::string_view op) {
  constexpr std::string_view kNames[] = {
      "__setitem__",     "bernoulli_", "copy_",
      "exponential_",    "fill_",      "index_copy_",
      "index_fill_",     "index_put_", "masked_fill_",
      "masked_scatter_", "normal_",    "random_",
      "scatter_",        "set_",       "trunc_normal_",
      "uniform_",        "zero_"};
  const std::string_view name = op.substr(op.rfind('.') + 1);
  return std::find(std::begin(kNames), std::end(kNames), name) !=
         std::end(kNames);
}

}  // namespace

void Undecidable::Call::Add(const LogicalTensor& tensor) {
  if (!IsFloatingPoint(tensor.dtype)) return;
  if (tensor.key.io == Io::kInput) {
    inputs.push_back(&tensor);
  } else if (tensor.key.io == Io::kOutput) {
    has_other_outputs = has_other_outputs || output != nullptr;
    output = &tensor;
  }
}

bool Undecidable::Call::IsKnown() const {
  return output != nullptr && !has_other_outputs && !inputs.empty();
}

bool Undecidable::Call::ReturnsArgument() const {
  return IsKnown() && std::any_of(inputs.begin(), inputs.end(),
                                  [&](const LogicalTensor* input) {
                                    return input->dtype == output->dtype &&
                                           input->shape == output->shape &&
                                           HasHash(*input) &&
                                           input->hash == output->hash;
                                  });
}

bool Undecidable::Call::Converts() const {
  return IsKnown() && std::all_of(inputs.begin(), inputs.end(),
                                  [&](const LogicalTensor* input) {
                                    return input->dtype != output->dtype;
                                  });
}

void Undecidable::Side::Add(const LogicalTensor& tensor) {
  if (const auto call = calls.find({tensor.key.op, tensor.key.call});
      call != calls.end()) {
    call->second.Add(tensor);
  }
  if (!HasHash(tensor)) return;
  const auto [found, is_new] =
      first.try_emplace(tensor.hash.low, tensor.sequence);
  if (!is_new) found->second = std::min(found->second, tensor.sequence);
}

const Undecidable::Call* Undecidable::Side::CallOf(
    const LogicalTensor& tensor) const {
  const auto call = calls.find({tensor.key.op, tensor.key.call});
  return call == calls.end() ? nullptr : &call->second;
}

bool Undecidable::Side::IsNew(const LogicalTensor& tensor) const {
  if (!HasHash(tensor)) return false;
  const auto found = first.find(tensor.hash.low);
  return found != first.end() && found->second == tensor.sequence;
}

Undecidable::Undecidable(const std::vector<TensorPair>& pairs) : pairs_(pairs) {
  for (const TensorPair& pair : pairs) {
    if (pair.golden == nullptr || pair.target == nullptr ||
        !IsGradient(pair.golden->key.io)) {
      continue;
    }
    golden_.calls[{pair.golden->key.op, pair.golden->key.call}];
    target_.calls[{pair.target->key.op, pair.target->key.call}];
  }
  for (const TensorPair& pair : pairs) {
    if (pair.golden != nullptr) golden_.Add(*pair.golden);
    if (pair.target != nullptr) target_.Add(*pair.target);
  }
}

bool Undecidable::HasEqualResult(size_t pair) const {
  const TensorKey& call = pairs_[pair].golden->key;
  // The result follows the arguments.
  constexpr size_t kReach = 16;
  const size_t end = std::min(pairs_.size(), pair + kReach);
  for (size_t i = pair + 1; i < end; ++i) {
    const TensorPair& other = pairs_[i];
    if (other.golden == nullptr || other.target == nullptr) continue;
    const TensorKey& key = other.golden->key;
    if (key.op == call.op && key.call == call.call && key.io == Io::kOutput &&
        key.index == call.index) {
      return HashesAgree(*other.golden, *other.target);
    }
  }
  return false;
}

std::string Undecidable::ReasonOf(size_t pair) const {
  const LogicalTensor* const golden = pairs_[pair].golden;
  const LogicalTensor* const target = pairs_[pair].target;
  if (golden == nullptr || target == nullptr) return "";
  if (golden->key.io == Io::kInput && golden->key.index == "0" &&
      target->key.index == "0" && Overwrites(golden->key.op) &&
      golden_.IsNew(*golden) && target_.IsNew(*target) &&
      (golden->key.token == 0 || HasEqualResult(pair))) {
    return "not decided, because nothing that was recorded has written this "
           "memory at this token";
  }
  if (!IsGradient(golden->key.io)) return "";
  const Call* const of_golden = golden_.CallOf(*golden);
  const Call* const of_target = target_.CallOf(*target);
  if (of_golden == nullptr || of_target == nullptr) return "";
  if (of_golden->ReturnsArgument() && of_target->Converts()) {
    return "not decided, because only the target converts the argument; golden "
           "returns it, so that its gradient includes other uses";
  }
  if (of_target->ReturnsArgument() && of_golden->Converts()) {
    return "not decided, because only golden converts the argument; the target "
           "returns it, so that its gradient includes other uses";
  }
  return "";
}

}  // namespace msitd::compare
