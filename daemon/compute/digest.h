// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "protos/base/dtype.h"
#include "protos/base/summary.h"

// Reductions over the bytes of a tensor. Pure functions, safe from any thread;
// the SIMD target is chosen once, at the first call, and MSITD_FORCE_TARGET
// names another one. Every target gives the same bits.
namespace msitd::compute {

// What is taken of every part while it is hot.
struct Digest {
  Summary summary;
  ContentHash hash;
};

// Returns the summary of `bytes`, elements of `dtype` in row-major order; the
// address needs no alignment and a rest of less than one element is a bug of
// the caller. Sums are accumulated in the fixed order that docs/kernels.md
// states, so equal bytes give equal bits on every CPU.
Summary Summarize(std::span<const std::byte> bytes, DType dtype);

// The same, and the XXH3-128 hash of the bytes, block by block so that they
// are loaded once. `bytes` must not change meanwhile, or summary and hash may
// be of different bytes; neither reads outside `bytes`.
Digest DigestPart(std::span<const std::byte> bytes, DType dtype);

// Returns the name of the target in use, such as "AVX2" or "NEON".
std::string_view SimdTargetName();

}  // namespace msitd::compute
