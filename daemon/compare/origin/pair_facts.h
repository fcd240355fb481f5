// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/precision.h"
#include "daemon/compare/match/tensor_group.h"
#include "protos/base/dtype.h"

// Facts about a pair that the search for ill-conditioned ops needs.
namespace msitd::compare {

// Returns whether the summaries of both sides are known and all golden elements
// are finite.
inline bool IsMeasured(const TensorPair& pair) {
  return pair.golden != nullptr && pair.target != nullptr &&
         pair.golden->knows_summary && pair.target->knows_summary &&
         pair.golden->kind == RecordKind::kTensor &&
         pair.golden->summary.count > 0 &&
         pair.golden->summary.finite_count() == pair.golden->summary.count;
}

// Returns whether both sides are floating-point tensors.
inline bool IsFloat(const TensorPair& pair) {
  return IsFloatingPoint(pair.golden->dtype) &&
         IsFloatingPoint(pair.target->dtype);
}

// Returns whether both sides exist and have the same bytes.
inline bool HasEqualBytes(const TensorPair& pair) {
  return pair.golden != nullptr && pair.target != nullptr &&
         HashesAgree(*pair.golden, *pair.target);
}

// The hashes of a pair: golden low, golden high, target low, target high.
using PairHashes = std::array<uint64_t, 4>;

// Returns the hashes of a pair; nullopt if one of them is unknown.
inline std::optional<PairHashes> HashesOf(const TensorPair& pair) {
  if (pair.golden == nullptr || pair.target == nullptr ||
      !HasHash(*pair.golden) || !HasHash(*pair.target)) {
    return std::nullopt;
  }
  return PairHashes{pair.golden->hash.low, pair.golden->hash.high,
                    pair.target->hash.low, pair.target->hash.high};
}

// Returns the coarsest of both types of a pair and the type that it was
// computed in.
inline DType CoarsestOf(const TensorPair& pair, DType computed_in) {
  return Coarser(Coarser(PrecisionOf(*pair.golden), PrecisionOf(*pair.target)),
                 computed_in);
}

// Returns the unit roundoff of a type; 0 if it does not round.
inline double RoundoffOf(DType type) {
  const int digits = RoundedDigits(type);
  return digits == 0 ? 0 : std::ldexp(1, -digits);
}

}  // namespace msitd::compare
