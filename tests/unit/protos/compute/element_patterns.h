// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protos/base/dtype.h"

namespace msitd::compute {

// Kinds of input that take different paths through the kernels.
enum class Pattern {
  kNormal,    // about the size of activations
  kAnyBits,   // every bit pattern of the dtype: NaN, infinities, subnormals
  kMixed,     // normal, with a special value now and then
  kTiny,      // squares vanish
  kHuge,      // squares overflow
  kWide,      // all magnitudes of the dtype in one block
  kZeros,     // +0 and -0
  kConstant,  // one value
  kSparse,    // mostly zeros
};
inline constexpr Pattern kPatterns[] = {
    Pattern::kNormal, Pattern::kAnyBits,  Pattern::kMixed,
    Pattern::kTiny,   Pattern::kHuge,     Pattern::kWide,
    Pattern::kZeros,  Pattern::kConstant, Pattern::kSparse};

std::string NameOf(Pattern pattern);

// Returns all dtypes that kernels process, which are the dtypes that are not
// complex.
std::vector<DType> Components();

// Returns the bits of the value of `component` that is nearest to `value`. On
// overflow, returns the largest finite value of an integer dtype, and the
// infinity (for e4m3fn, NaN) of a floating-point dtype.
uint64_t Encode(DType component, double value);

// Appends `value` as `component`.
void Append(DType component, double value, std::vector<std::byte>& out);

// Returns `count` elements. Equal seeds give equal elements.
std::vector<std::byte> MakeElements(DType component, Pattern pattern,
                                    size_t count, uint64_t seed);

}  // namespace msitd::compute
