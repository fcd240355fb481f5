// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "protos/compute/number/lane_sum.h"

// Inputs that are likely to reveal errors in kernels.
namespace msitd::compute {

// Returns lengths around the borders of vectors, virtual lanes and blocks.
inline std::vector<size_t> Lengths() {
  std::vector<size_t> out;
  for (size_t n = 0; n <= 4 * kVirtualLanes + 1; ++n) out.push_back(n);
  for (size_t blocks = 1; blocks <= 3; ++blocks) {
    for (const int rest : {-1, 0, 1, 17}) {
      out.push_back(blocks * kBlockElements + rest);
    }
  }
  out.push_back(1000);
  return out;
}

// A copy of the bytes at an address with another alignment.
class Shifted {
 public:
  Shifted(const std::vector<std::byte>& bytes, size_t shift)
      : storage_(bytes.size() + 64 + shift) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    begin_ = storage_.data() + (64 - address % 64) % 64 + shift;
    if (!bytes.empty()) std::memcpy(begin_, bytes.data(), bytes.size());
  }
  const std::byte* data() const { return begin_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* begin_;
};

}  // namespace msitd::compute
