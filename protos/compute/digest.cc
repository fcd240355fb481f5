// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/digest.h"

#include <algorithm>

#include "protos/base/check.h"
#include "protos/compute/kernel/kernels.h"
#include "protos/compute/kernel/part_hash.h"
#include "protos/compute/kernel/summary_state.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {
namespace {

// Small enough to be still in the second-level cache when the hash follows the
// summary, and a multiple of a block of any dtype.
constexpr size_t kDigestBlockBytes = size_t{64} << 10;
static_assert(kDigestBlockBytes % (kBlockElements * sizeof(double)) == 0);

size_t CheckedComponentBytes(std::span<const std::byte> bytes, DType dtype) {
  MSITD_CHECK(IsValid(dtype));
  MSITD_CHECK(bytes.size() % ElementBytes(dtype) == 0);
  return ElementBytes(ComponentOf(dtype));
}

}  // namespace

Summary Summarize(std::span<const std::byte> bytes, DType dtype) {
  const size_t component_bytes = CheckedComponentBytes(bytes, dtype);
  SummaryState state;
  ChosenKernels().summary(ComponentOf(dtype), bytes.data(),
                          bytes.size() / component_bytes, state);
  return ToSummary(state);
}

Digest DigestPart(std::span<const std::byte> bytes, DType dtype) {
  const size_t component_bytes = CheckedComponentBytes(bytes, dtype);
  const Kernels& kernels = ChosenKernels();
  SummaryState state;
  PartHashState hash;
  kernels.hash->start(hash);
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min(bytes.size(), kDigestBlockBytes));
    kernels.summary(ComponentOf(dtype), block.data(),
                    block.size() / component_bytes, state);
    kernels.hash->update(hash, block.data(), block.size());
    bytes = bytes.subspan(block.size());
  }
  uint64_t halves[2];
  kernels.hash->finish(hash, halves);
  return {ToSummary(state), {halves[0], halves[1]}};
}

std::string_view SimdTargetName() { return ChosenKernels().name; }

}  // namespace msitd::compute
