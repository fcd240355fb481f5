// SPDX-License-Identifier: Apache-2.0
#include "protos/os/aligned_buffer.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace msitd {
namespace {

TEST(AlignUpTest, RoundsUpToTheNextMultiple) {
  EXPECT_EQ(AlignUp(0, 4096), 0u);
  EXPECT_EQ(AlignUp(1, 4096), 4096u);
  EXPECT_EQ(AlignUp(4096, 4096), 4096u);
  EXPECT_EQ(AlignUp(4097, 64), 4160u);
}

TEST(AlignedBufferTest, BeginsAndEndsAtPages) {
  AlignedBuffer buffer(5000);
  EXPECT_EQ(buffer.size(), 8192u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kChunkAlignment, 0u);
  std::memset(buffer.data(), 1, buffer.size());
  EXPECT_EQ(buffer.span().back(), std::byte{1});
}

TEST(AlignedBufferTest, OfNoBytesOwnsNothing) {
  const AlignedBuffer buffer(0);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(AlignedBufferTest, KeepsItsMemoryWhenMoved) {
  AlignedBuffer buffer(1);
  const std::byte* data = buffer.data();
  const AlignedBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(moved.size(), kChunkAlignment);
}

}  // namespace
}  // namespace msitd
