// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/dtype.h"

namespace msitd::compare {

// Returns the number of significant binary digits of a type that rounds.
// Returns 0 for types that do not round. These include the types of scales,
// whose values are powers of two.
constexpr int RoundedDigits(DType type) {
  const int digits = InfoOf(type).digits;
  return digits < 2 ? 0 : digits;
}

// Returns the type that rounds to fewer digits. A type that does not round
// counts as the finest. Returns `a` if both are equally coarse.
constexpr DType Coarser(DType a, DType b) {
  if (RoundedDigits(b) == 0) return a;
  return RoundedDigits(a) == 0 || RoundedDigits(b) < RoundedDigits(a) ? b : a;
}

// A type that is coarser in one run than in the other excuses larger errors if
// the run computes in that type on purpose, as under autocast. A single such
// output is more likely a faulty cast, which excuses nothing. The outputs that
// are narrower in one run are therefore exceptions if they are at most one in
// kExceptionalShare of all outputs.
inline constexpr int kExceptionalShare = 16;
constexpr bool AreExceptions(int64_t narrow_outputs, int64_t outputs) {
  return narrow_outputs * kExceptionalShare <= outputs;
}

// How the values of a pair were computed, as far as their own types do not show
// it.
struct Basis {
  // The coarsest type that the values of either run went through. kUnspecified
  // if no type is coarser than those of the pair.
  DType computed_in = DType::kUnspecified;
  // True if one op computed both tensors from inputs that are equal bit for
  // bit. Only that op can have made the difference.
  bool has_equal_inputs = false;

  friend bool operator==(const Basis&, const Basis&) = default;
};

// The basis of a pair, and the pair of its group that it follows from.
struct PairBasis {
  Basis basis = {};
  // The pair that has the type `basis.computed_in`. -1 if that is kUnspecified,
  // or if it follows from an earlier token.
  int32_t from = -1;

  friend bool operator==(const PairBasis&, const PairBasis&) = default;
};

}  // namespace msitd::compare
