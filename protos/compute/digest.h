// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "protos/base/dtype.h"
#include "protos/base/summary.h"
#include "protos/compute/kernel/kernels.h"
#include "protos/compute/kernel/part_hash.h"
#include "protos/compute/kernel/summary_state.h"

// Reductions over the bytes of a tensor. Pure functions, safe from any thread;
// the SIMD target is chosen once, at the first call, and MSITD_FORCE_TARGET
// names another one. Every target gives the same bits.
namespace msitd::compute {

// Returns the summary of `bytes`: whole elements of `dtype` (checked) in
// row-major order, at any address. Sums are accumulated in the fixed order that
// docs/kernels.md states, so equal bytes give equal bits on every CPU.
Summary Summarize(std::span<const std::byte> bytes, DType dtype);

// Returns the XXH3-128 hash of `bytes`.
ContentHash HashPart(std::span<const std::byte> bytes);

// Returns the summary and the XXH3-128 hash of `bytes`, taken block by block so
// that memory is read once. If `bytes` change during the call, summary and hash
// may describe different bytes, but neither reads outside `bytes`.
Digest DigestPart(std::span<const std::byte> bytes, DType dtype);

// Computes the digest of bytes in several pieces. Thread-compatible.
class PartDigester {
 public:
  // The sizes of all pieces except the last are multiples of this.
  static constexpr size_t kPieceStep = size_t{2} << 10;

  explicit PartDigester(DType dtype);

  // Adds the next bytes: whole elements (checked).
  void Add(std::span<const std::byte> bytes);
  // Returns what DigestPart does for all of them. Called once.
  Digest Finish();

 private:
  DType dtype_;
  const Kernels& kernels_;
  SummaryState summary_;
  PartHashState hash_;
};

// Returns the name of the target in use, such as "AVX2" or "NEON".
std::string_view SimdTargetName();

}  // namespace msitd::compute
