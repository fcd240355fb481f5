// SPDX-License-Identifier: Apache-2.0
#include "protos/base/sample.h"

#include <array>
#include <cstring>

#include "protos/base/check.h"

namespace msitd {
namespace {

// Copies through a local variable, because `in` and `out` may overlap.
template <size_t kBytes>
void GatherElements(const SampleSlice& slice, const std::byte* in,
                    std::byte* out) {
  const uint64_t stride = slice.step * kBytes;
  in += slice.first * kBytes;
  for (uint64_t i = 0; i < slice.count; ++i) {
    std::array<std::byte, kBytes> element;
    std::memcpy(element.data(), in + i * stride, kBytes);
    std::memcpy(out + i * kBytes, element.data(), kBytes);
  }
}

}  // namespace

void GatherSample(const SampleSlice& slice, std::span<const std::byte> part,
                  std::span<std::byte> out) {
  if (slice.count == 0) return;
  const uint64_t last = slice.first + (slice.count - 1) * slice.step;
  MSITD_CHECK((last + 1) * slice.element_bytes <= part.size());
  MSITD_CHECK(slice.bytes() <= out.size());
  if (slice.step == 1) {
    std::memmove(out.data(), part.data() + slice.first * slice.element_bytes,
                 slice.bytes());
    return;
  }
  switch (slice.element_bytes) {
    case 1:
      return GatherElements<1>(slice, part.data(), out.data());
    case 2:
      return GatherElements<2>(slice, part.data(), out.data());
    case 4:
      return GatherElements<4>(slice, part.data(), out.data());
    case 8:
      return GatherElements<8>(slice, part.data(), out.data());
    case 16:
      return GatherElements<16>(slice, part.data(), out.data());
    default:
      MSITD_CHECK(false);
  }
}

}  // namespace msitd
