// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daemon/compute/kernel/kernels.h"
#include "daemon/compute/kernel/pair_state.h"
#include "protos/base/dtype.h"

// Integers of 64 bits beyond 2^53: double rounds them, so that numbers which
// differ may look equal. Their differences are taken exactly here, and rounded
// to double once.
namespace msitd::compute {

// True for components that double does not always hold.
constexpr bool IsWide(DType component) {
  return component == DType::kInt64 || component == DType::kUint64;
}

// Writes |t - g| of `count` pairs, of which a side is wide. Void where a side
// is not finite.
void WideDifferences(DType target_component, const std::byte* target,
                     DType golden_component, const std::byte* golden,
                     size_t count, double* out);

// Adds pairs of which a side is wide, as `kernel` does, but with exact
// differences. The same bits as the kernel's where no element is beyond 2^53.
void AddWidePairs(PairKernel kernel, const std::byte* target,
                  const std::byte* golden, size_t count, PairState& state);

}  // namespace msitd::compute
