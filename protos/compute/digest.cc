// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/digest.h"

#include <algorithm>

#include "protos/base/check.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {
namespace {

// Small enough to be still in the second-level cache when the hash follows the
// summary, and a multiple of a block of any dtype.
constexpr size_t kDigestBlockBytes = size_t{64} << 10;
static_assert(kDigestBlockBytes % PartDigester::kPieceStep == 0);
// A complex element is two to a block.
static_assert(PartDigester::kPieceStep % (kBlockElements * sizeof(double)) ==
              0);

size_t CheckedComponentBytes(std::span<const std::byte> bytes, DType dtype) {
  MSITD_CHECK(IsValid(dtype));
  MSITD_CHECK(bytes.size() % ElementBytes(dtype) == 0);
  return ElementBytes(ComponentOf(dtype));
}

ContentHash FinishHash(const Kernels& kernels, const PartHashState& state) {
  uint64_t halves[2];
  kernels.hash->finish(state, halves);
  return {halves[0], halves[1]};
}

}  // namespace

Summary Summarize(std::span<const std::byte> bytes, DType dtype) {
  const size_t component_bytes = CheckedComponentBytes(bytes, dtype);
  SummaryState state;
  ChosenKernels().summary(ComponentOf(dtype), bytes.data(),
                          bytes.size() / component_bytes, state);
  return ToSummary(state);
}

PartDigester::PartDigester(DType dtype)
    : dtype_(dtype), kernels_(ChosenKernels()) {
  kernels_.hash->start(hash_);
}

void PartDigester::Add(std::span<const std::byte> bytes) {
  const size_t component_bytes = CheckedComponentBytes(bytes, dtype_);
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min(bytes.size(), kDigestBlockBytes));
    kernels_.summary(ComponentOf(dtype_), block.data(),
                     block.size() / component_bytes, summary_);
    kernels_.hash->update(hash_, block.data(), block.size());
    bytes = bytes.subspan(block.size());
  }
}

Digest PartDigester::Finish() {
  return {ToSummary(summary_), FinishHash(kernels_, hash_)};
}

ContentHash HashPart(std::span<const std::byte> bytes) {
  const Kernels& kernels = ChosenKernels();
  PartHashState state;
  kernels.hash->start(state);
  kernels.hash->update(state, bytes.data(), bytes.size());
  return FinishHash(kernels, state);
}

Digest DigestPart(std::span<const std::byte> bytes, DType dtype) {
  PartDigester digester(dtype);
  digester.Add(bytes);
  return digester.Finish();
}

std::string_view SimdTargetName() { return ChosenKernels().name; }

}  // namespace msitd::compute
