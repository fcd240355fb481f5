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

// What is computed of every part while its bytes are in the cache.
struct Digest {
  Summary summary;
  ContentHash hash;
};

// Returns the summary of `bytes`: whole elements of `dtype` (checked) in
// row-major order, at any address. Sums are accumulated in the fixed order that
// docs/kernels.md states, so equal bytes give equal bits on every CPU.
Summary Summarize(std::span<const std::byte> bytes, DType dtype);

// Returns the summary and the XXH3-128 hash of `bytes`, taken block by block so
// that memory is read once. If `bytes` change meanwhile, summary and hash may
// be of different bytes; neither reads outside `bytes`.
Digest DigestPart(std::span<const std::byte> bytes, DType dtype);

// Returns the name of the target in use, such as "AVX2" or "NEON".
std::string_view SimdTargetName();

}  // namespace msitd::compute
