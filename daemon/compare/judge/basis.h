// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/dtype.h"

namespace msitd::compare {

// The digits of values that are rounded; 0 for all others, as for scales, which
// are powers of two.
constexpr int RoundedDigits(DType type) {
  const int digits = InfoOf(type).digits;
  return digits < 2 ? 0 : digits;
}

// Returns the one of two types that rounds to fewer digits; `a` if neither
// does.
constexpr DType Coarser(DType a, DType b) {
  if (RoundedDigits(b) == 0) return a;
  return RoundedDigits(a) == 0 || RoundedDigits(b) < RoundedDigits(a) ? b : a;
}

// Of the outputs of a run that are narrower than those of the other run, one in
// so many or fewer are exceptions: nothing is meant to be computed in their
// type, so that it excuses nothing.
inline constexpr int kExceptionalShare = 16;
constexpr bool AreExceptions(int64_t narrow_outputs, int64_t outputs) {
  return narrow_outputs * kExceptionalShare <= outputs;
}

// What is known of how the two tensors of a pair came about, beside their own
// types.
struct Basis {
  // The type with the fewest digits that their values went through; never a
  // type with more digits than their own. kUnspecified if that is their own.
  DType computed_in = DType::kUnspecified;
  // One op made both from inputs that are equal bit for bit, so that it alone
  // made the difference.
  bool has_equal_inputs = false;

  friend bool operator==(const Basis&, const Basis&) = default;
};

}  // namespace msitd::compare
