// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/digest_memory.h"

#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "protos/compute/digest.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

constexpr size_t kLarge = DigestMemory::kBytesMin;

std::vector<std::byte> LargeElements(uint64_t seed, Pattern pattern) {
  return MakeElements(DType::kFloat32, pattern, kLarge / sizeof(float), seed);
}

// A digest that no bytes have, to see whether it is used.
Digest FalseDigestOf(std::span<const std::byte> bytes) {
  return {Summary{.count = 1}, HashPart(bytes)};
}

TEST(DigestMemoryTest, GivesTheDigestOfThePart) {
  DigestMemory memory(4);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      for (const Pattern pattern : kPatterns) {
        const auto bytes = LargeElements(seed, pattern);
        for (const DType dtype :
             {DType::kFloat32, DType::kInt16, DType::kComplex64}) {
          EXPECT_TRUE(HasEqualBits(memory.DigestPart(bytes, dtype),
                                   DigestPart(bytes, dtype)));
        }
      }
    }
  }
}

TEST(DigestMemoryTest, UsesASummaryAgain) {
  DigestMemory memory(1);
  const auto bytes = LargeElements(1, Pattern::kMixed);
  const Digest known = FalseDigestOf(bytes);
  memory.Add(known, bytes.size(), DType::kFloat32);
  EXPECT_TRUE(HasEqualBits(memory.DigestPart(bytes, DType::kFloat32), known));
}

TEST(DigestMemoryTest, DistinguishesBytesDtypesAndOwners) {
  const auto bytes = LargeElements(1, Pattern::kMixed);
  const auto other = LargeElements(2, Pattern::kMixed);
  const auto is_computed = [&](std::span<const std::byte> now, DType dtype,
                               uint64_t owner) {
    DigestMemory memory(1);
    memory.Add(FalseDigestOf(bytes), bytes.size(), DType::kFloat32, 1);
    return HasEqualBits(memory.DigestPart(now, dtype, owner),
                        DigestPart(now, dtype));
  };
  EXPECT_FALSE(is_computed(bytes, DType::kFloat32, 1));
  EXPECT_TRUE(is_computed(other, DType::kFloat32, 1));
  EXPECT_TRUE(is_computed(bytes, DType::kInt32, 1));
  EXPECT_TRUE(is_computed(bytes, DType::kFloat32, 2));
}

TEST(DigestMemoryTest, ComputesWhatIsSmall) {
  DigestMemory memory(1);
  const auto bytes = LargeElements(1, Pattern::kMixed);
  const auto small = std::span(bytes).first(kLarge / 2);
  memory.Add(FalseDigestOf(small), small.size(), DType::kFloat32);
  EXPECT_TRUE(HasEqualBits(memory.DigestPart(small, DType::kFloat32),
                           DigestPart(small, DType::kFloat32)));
}

TEST(DigestMemoryTest, IsSafeFromSeveralThreads) {
  DigestMemory memory(2);
  std::vector<std::thread> threads;
  for (uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&memory, number] {
      for (uint64_t seed = 0; seed < 50; ++seed) {
        const auto bytes = LargeElements((seed + number) % 4, Pattern::kMixed);
        EXPECT_TRUE(HasEqualBits(memory.DigestPart(bytes, DType::kFloat32),
                                 DigestPart(bytes, DType::kFloat32)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace msitd::compute
