// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "protos/base/dtype.h"

namespace msitd {

// Mergeable summary of a tensor, of a part of one, or of a set of tensors.
//
// Extremes and sums are computed in double over the real numbers that the
// elements represent. A complex element counts as its two components. The
// layout is part of the chunk format (docs/format/chunk.md).
struct Summary {
  // Number of elements (components if complex). NaN, infinities and zeros of
  // either sign are also counted in separate fields.
  uint64_t count = 0;
  uint64_t nan_count = 0;
  uint64_t positive_infinity_count = 0;
  uint64_t negative_infinity_count = 0;
  uint64_t zero_count = 0;

  // Extremes of all elements that are not NaN, including infinities. +Inf and
  // -Inf if there are no such elements.
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  // Sums over finite elements: sum x and sum |x| (the L1 norm).
  double sum = 0;
  double l1 = 0;

  // The sum of x^2 over finite elements is `sum_squares` *
  // 2^`sum_squares_exponent`. The exponent is 0 unless the sum would overflow
  // or underflow in double.
  double sum_squares = 0;
  int64_t sum_squares_exponent = 0;

  uint64_t finite_count() const {
    return count - nan_count - positive_infinity_count -
           negative_infinity_count;
  }

  // False if there are no elements other than NaN; `min` and `max` are then
  // meaningless.
  bool has_extremes() const { return count > nan_count; }

  // Largest |x| that is not NaN; 0 if there is none.
  double abs_max() const;

  // Mean and L2 norm of the finite elements; 0 if there is none.
  double mean() const;
  double l2_norm() const;

  friend bool operator==(const Summary&, const Summary&) = default;
};

static_assert(sizeof(Summary) == 88);

// Returns false if no elements of `dtype` in `bytes` bytes can have this
// summary, as far as this can be determined without the bytes. Used for
// summaries that other programs computed.
bool IsPossible(const Summary& summary, DType dtype, uint64_t bytes);

// Returns the summary of the concatenation: `a`'s elements, then `b`'s.
// Counts and extremes merge exactly; sums round once per merge, so merging in
// the same order gives the same bits everywhere.
Summary Merge(const Summary& a, const Summary& b);

// XXH3 128-bit hash of the bytes of a part. For a tensor with several parts,
// the hash of their 16-byte little-endian hashes (low half first), in order.
struct ContentHash {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const ContentHash&, const ContentHash&) = default;
};

static_assert(sizeof(ContentHash) == 16);

// Summary and hash of a part, which describe its bytes without containing them.
struct Digest {
  Summary summary;
  ContentHash hash;
};

static_assert(sizeof(Digest) == 104);
static_assert(std::is_trivially_copyable_v<Digest>);

// True if all bits are equal.
bool HasEqualBits(const Digest& a, const Digest& b);

// 32 hexadecimal digits, the high half first.
std::string HashText(const ContentHash& hash);

}  // namespace msitd
