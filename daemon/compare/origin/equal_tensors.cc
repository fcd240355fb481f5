// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/equal_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>

#include "protos/base/record_kind.h"
#include "protos/base/shape.h"
#include "protos/base/summary.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

constexpr uint64_t kElementsMin = 8;

using Side = const LogicalTensor* TensorPair::*;

// Returns whether the hash of a tensor is known.
bool IsHashed(const LogicalTensor& tensor) {
  return tensor.kind == RecordKind::kTensor && HasHash(tensor) &&
         tensor.hash != ContentHash();
}

// Returns whether a tensor is not equal to others by chance.
bool IsDistinctive(const LogicalTensor& tensor) {
  return IsHashed(tensor) && ElementCount(tensor.shape) >= kElementsMin &&
         tensor.knows_summary && tensor.summary.min < tensor.summary.max;
}

bool IsResult(Io io) {
  return io == Io::kOutput || io == Io::kWeight || io == Io::kGradInput;
}

// Returns the pair of the tensor that was recorded before `tensor` in the same
// run and is equal to it; null if there is none. Results are preferred to
// inputs, and later tensors to earlier ones: the last result is that of the
// outermost op that returned the tensor.
const TensorPair* EarlierEqual(const std::vector<TensorPair>& pairs, Side side,
                               const LogicalTensor& tensor) {
  const TensorPair* best = nullptr;
  const auto is_better = [side](const TensorPair& a, const TensorPair& b) {
    const bool is_result = IsResult((a.*side)->key.io);
    if (is_result != IsResult((b.*side)->key.io)) return is_result;
    return (a.*side)->sequence > (b.*side)->sequence;
  };
  for (const TensorPair& pair : pairs) {
    const LogicalTensor* const other = pair.*side;
    if (other == nullptr || other->sequence >= tensor.sequence ||
        !IsHashed(*other) || other->hash != tensor.hash ||
        other->dtype != tensor.dtype ||
        ElementCount(other->shape) != ElementCount(tensor.shape)) {
      continue;
    }
    if (best == nullptr || is_better(pair, *best)) best = &pair;
  }
  return best;
}

// Returns whether the tensor of a run is equal to that of `pair`.
bool IsEqualTo(const TensorPair* pair, Side side, const LogicalTensor& tensor) {
  const LogicalTensor* const other = pair == nullptr ? nullptr : pair->*side;
  return other != nullptr && IsHashed(*other) && other->hash == tensor.hash;
}

// Returns a golden tensor that is equal to the target tensor of `of`; null if
// there is none. Results are preferred. For a result, later inputs are passed
// over: if both runs have the inputs of the target, as when calls are made
// again, a wrong result is an input of golden's next call.
const TensorPair* GoldenEqual(const std::vector<TensorPair>& pairs,
                              const TensorPair& of) {
  const LogicalTensor& target = *of.target;
  const TensorPair* best = nullptr;
  for (const TensorPair& pair : pairs) {
    if (!IsEqualTo(&pair, &TensorPair::golden, target) ||
        pair.golden->dtype != target.dtype ||
        ElementCount(pair.golden->shape) != ElementCount(target.shape)) {
      continue;
    }
    if (IsResult(pair.golden->key.io)) return &pair;
    if (best == nullptr && (!IsResult(of.golden->key.io) ||
                            pair.golden->sequence < of.golden->sequence)) {
      best = &pair;
    }
  }
  return best;
}

std::string NameOf(const TensorPair& pair, Side side) {
  const TensorKey& key =
      pair.golden != nullptr ? pair.golden->key : (pair.*side)->key;
  // Functions are named by their numbers only.
  const std::string call =
      key.call > 0 ? fmt::format(" of call {}", key.call) : "";
  return fmt::format("{} {}/{}{}", key.op, IoName(key.io), key.index, call);
}

}  // namespace

std::string EqualTensorsNote(const std::vector<TensorPair>& pairs,
                             size_t pair) {
  const LogicalTensor& golden = *pairs[pair].golden;
  const LogicalTensor& target = *pairs[pair].target;
  if (!IsDistinctive(golden) || !IsDistinctive(target) ||
      golden.hash == target.hash) {
    return "";
  }
  const TensorPair* const of_golden =
      EarlierEqual(pairs, &TensorPair::golden, golden);
  const TensorPair* const of_target =
      EarlierEqual(pairs, &TensorPair::target, target);
  // The target passes on the same tensor, which differs already; or golden
  // passes on both, which are equal there.
  if (IsEqualTo(of_golden, &TensorPair::target, target) ||
      IsEqualTo(of_target, &TensorPair::golden, golden)) {
    return "";
  }
  if (of_golden != nullptr && of_target != nullptr) {
    return fmt::format("equal to {} in golden, to {} in the target",
                       NameOf(*of_golden, &TensorPair::golden),
                       NameOf(*of_target, &TensorPair::target));
  }
  if (of_target != nullptr) {
    return fmt::format("equal to {} only in the target",
                       NameOf(*of_target, &TensorPair::target));
  }
  std::vector<std::string> notes;
  if (of_golden != nullptr) {
    notes.push_back(fmt::format("equal to {} only in golden",
                                NameOf(*of_golden, &TensorPair::golden)));
  }
  if (const TensorPair* const other = GoldenEqual(pairs, pairs[pair])) {
    notes.push_back(fmt::format("the target has {} of golden",
                                NameOf(*other, &TensorPair::golden)));
  }
  return fmt::format("{}", fmt::join(notes, "; "));
}

}  // namespace msitd::compare
