// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daemon/compute/kernel/pair_kernels.h"
#include "daemon/compute/kernel/pair_state.h"
#include "protos/base/dtype.h"

// Pairs with integers beyond 2^53. Double rounds them, so that different
// numbers may look equal. Their differences are taken exactly here, and then
// rounded to double once.
namespace msitd::compute {

// True for components with values that double cannot hold.
constexpr bool IsWide(DType component) {
  return component == DType::kInt64 || component == DType::kUint64;
}

// Writes |t - g| of `count` pairs. At least one side is wide. The value is void
// where a side is not finite.
void WideDifferences(DType target_component, const std::byte* target,
                     DType golden_component, const std::byte* golden,
                     size_t count, double* out);

// Adds pairs as `kernel` does, but with exact differences. At least one side is
// wide. Gives the bits of the kernel where no element is beyond 2^53.
void AddWidePairs(PairKernel kernel, const std::byte* target,
                  const std::byte* golden, size_t count, PairState& state);

}  // namespace msitd::compute
