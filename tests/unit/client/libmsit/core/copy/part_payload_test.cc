// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/copy/part_payload.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "protos/compute/digest.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::libmsit {
namespace {

constexpr int64_t kRows = 256;
constexpr int64_t kColumns = 192;
constexpr int64_t kDims[] = {kRows, kColumns};

TensorView ViewOf(const std::vector<std::byte>& bytes,
                  std::span<const int64_t> byte_strides = {}) {
  TensorView view;
  view.dtype = DType::kFloat32;
  view.dims = kDims;
  view.byte_strides = byte_strides;
  view.data = bytes.data();
  return view;
}

std::vector<std::byte> Elements(uint64_t seed) {
  return compute::MakeElements(DType::kFloat32, compute::Pattern::kMixed,
                               kRows * kColumns, seed);
}

TEST(PartPayloadTest, DigestsAreThoseOfTheBytes) {
  compute::DigestMemory memory(16);
  constexpr int64_t kTransposed[] = {4, 4 * kRows};
  for (int round = 0; round < 2; ++round) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const std::vector<std::byte> bytes = Elements(seed);
      for (const size_t size : {size_t{8}, size_t{4096}, bytes.size()}) {
        EXPECT_TRUE(
            HasEqualBits(DigestOf(ViewOf(bytes), 0, size, memory),
                         compute::DigestPart(std::span(bytes).first(size),
                                             DType::kFloat32)));
      }
      std::vector<std::byte> copied(bytes.size());
      const TensorView transposed = ViewOf(bytes, kTransposed);
      CopyPart(transposed, 0, copied);
      EXPECT_TRUE(HasEqualBits(DigestOf(transposed, 0, bytes.size(), memory),
                               compute::DigestPart(copied, DType::kFloat32)));
    }
  }
}

// A race is an error of the host, but it affects only this record, not later
// ones of the same bytes.
#if !defined(__SANITIZE_THREAD__)
TEST(PartPayloadTest, BytesThatChangeMeanwhileLeaveNoFalseSummary) {
  compute::DigestMemory memory(1024);
  const std::vector<std::byte> zeros(kRows * kColumns * sizeof(float));
  const std::vector<std::byte> values = Elements(7);
  std::vector<std::byte> bytes = zeros;
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
      std::memset(bytes.data(), 0, bytes.size());
    }
  });
  for (int i = 0; i < 3000; ++i) {
    (void)DigestOf(ViewOf(bytes), 0, bytes.size(), memory);
  }
  is_over.store(true, std::memory_order_relaxed);
  writer.join();
  for (const std::vector<std::byte>& each : {zeros, values}) {
    EXPECT_TRUE(HasEqualBits(DigestOf(ViewOf(each), 0, each.size(), memory),
                             compute::DigestPart(each, DType::kFloat32)));
  }
}
#endif

}  // namespace
}  // namespace msitd::libmsit
