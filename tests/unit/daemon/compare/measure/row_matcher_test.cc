// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/row_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
RowSide Side(const std::vector<T>& values, DType dtype) {
  return {std::as_bytes(std::span(values)), dtype};
}

RowMatch Match(const RowSide& golden, const RowSide& target,
               const RowSlices& rows, double tolerance) {
  auto match = MatchRows(golden, target, rows, tolerance,
                         [] { return absl::OkStatus(); });
  EXPECT_TRUE(match.ok()) << match.status();
  std::vector<uint32_t> sorted = match->partners;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t i = 0; i < rows.count; ++i) EXPECT_EQ(sorted[i], i);
  EXPECT_EQ(match->alone_golden.size(),
            std::min<uint64_t>(match->alone_count, kAloneRowsMax));
  EXPECT_EQ(match->alone_target.size(), match->alone_golden.size());
  return *std::move(match);
}

RowMatch MatchFloats(const std::vector<float>& golden,
                     const std::vector<float>& target, uint64_t width,
                     double tolerance = 0) {
  return Match(Side(golden, DType::kFloat32), Side(target, DType::kFloat32),
               {1, golden.size() / width, width}, tolerance);
}

// A golden tensor, and a target with the same rows in a random order. `order`
// has the golden row of each target row.
struct Shuffled {
  std::vector<float> golden;
  std::vector<float> target;
  std::vector<uint32_t> order;
};

Shuffled Shuffle(std::vector<float> golden, uint64_t width, double noise,
                 std::mt19937& random) {
  Shuffled out;
  out.order.resize(golden.size() / width);
  std::iota(out.order.begin(), out.order.end(), 0u);
  std::shuffle(out.order.begin(), out.order.end(), random);
  std::normal_distribution<double> error(0, noise);
  for (const uint32_t row : out.order) {
    for (uint64_t i = 0; i < width; ++i) {
      const float x = golden[row * width + i];
      out.target.push_back(
          noise == 0 ? x : static_cast<float>(x * (1 + error(random))));
    }
  }
  out.golden = std::move(golden);
  return out;
}

std::vector<float> Normal(size_t count, std::mt19937& random) {
  std::normal_distribution<float> value;
  std::vector<float> out(count);
  for (float& x : out) x = value(random);
  return out;
}

void ExpectOrder(const RowMatch& match, const Shuffled& shuffled) {
  EXPECT_EQ(match.alone_count, 0u);
  for (uint32_t i = 0; i < shuffled.order.size(); ++i) {
    EXPECT_EQ(match.partners[shuffled.order[i]], i);
  }
}

TEST(RowMatcherTest, FindsTheOrderOfEqualRows) {
  std::mt19937 random(1);
  for (const uint64_t width : {1, 3, 8, 9, 70}) {
    for (const uint64_t count : {1, 2, 17, 300}) {
      const Shuffled shuffled =
          Shuffle(Normal(count * width, random), width, 0, random);
      ExpectOrder(MatchFloats(shuffled.golden, shuffled.target, width),
                  shuffled);
    }
  }
}

TEST(RowMatcherTest, FindsTheOrderOfRowsWithErrors) {
  std::mt19937 random(2);
  for (const double noise : {1e-6, 1e-3, 1e-2}) {
    for (const uint64_t width : {4, 8, 16, 200}) {
      const Shuffled shuffled =
          Shuffle(Normal(200 * width, random), width, noise, random);
      ExpectOrder(
          MatchFloats(shuffled.golden, shuffled.target, width, 8 * noise),
          shuffled);
    }
  }
}

TEST(RowMatcherTest, LargeChannelsDoNotHideOthers) {
  std::mt19937 random(3);
  std::vector<float> golden = Normal(500 * 64, random);
  for (size_t i = 7; i < golden.size(); i += 64) golden[i] = 3000 + golden[i];
  const Shuffled shuffled = Shuffle(std::move(golden), 64, 4e-3, random);
  ExpectOrder(MatchFloats(shuffled.golden, shuffled.target, 64, 0.2), shuffled);
}

TEST(RowMatcherTest, NamesOneWrongRow) {
  std::mt19937 random(4);
  for (const uint64_t width : {1, 2, 8, 64}) {
    for (const double noise : {0.0, 1e-5}) {
      Shuffled shuffled =
          Shuffle(Normal(1000 * width, random), width, noise, random);
      for (uint64_t i = 0; i < width; ++i) {
        shuffled.target[123 * width + i] += 100;
      }
      const RowMatch match =
          MatchFloats(shuffled.golden, shuffled.target, width, 1e-4);
      EXPECT_EQ(match.alone_count, 1u) << width << " " << noise;
      EXPECT_THAT(match.alone_target, ElementsAre(123));
      if (width > 2) {
        EXPECT_THAT(match.alone_golden, ElementsAre(shuffled.order[123]));
        EXPECT_EQ(match.partners[shuffled.order[123]], 123u);
      }
    }
  }
}

TEST(RowMatcherTest, EachRowIsUsedOnce) {
  // Golden has A, A and B, the target A, B and B.
  const RowMatch match =
      MatchFloats({1, 2, 1, 2, 5, 6}, {1, 2, 5, 6, 5, 6}, 2, 0.1);
  EXPECT_EQ(match.alone_count, 1u);
  EXPECT_THAT(match.alone_golden, ElementsAre(1));
  EXPECT_THAT(match.alone_target, ElementsAre(2));
}

TEST(RowMatcherTest, MatchesDuplicatesAndRowsThatAreAllEqual) {
  std::mt19937 random(5);
  std::vector<float> golden = Normal(400 * 8, random);
  for (size_t i = 0; i < golden.size(); ++i) golden[i] = golden[i % 80];
  for (const double noise : {0.0, 1e-6}) {
    const Shuffled shuffled = Shuffle(golden, 8, noise, random);
    EXPECT_EQ(
        MatchFloats(shuffled.golden, shuffled.target, 8, 1e-4).alone_count, 0u);
  }
  const std::vector<float> ones(3000, 1);
  const RowMatch equal = MatchFloats(ones, ones, 3);
  EXPECT_EQ(equal.moved_count, 0u);
  EXPECT_EQ(equal.alone_count, 0u);
}

TEST(RowMatcherTest, MatchesRowsWithinToleranceOfEachOther) {
  std::mt19937 random(6);
  for (const uint64_t width : {1, 2, 8, 32}) {
    std::vector<float> golden(5000 * width, 1);
    std::vector<float> target = golden;
    std::normal_distribution<float> error(0, 1e-4);
    for (float& x : target) x += error(random);
    EXPECT_EQ(MatchFloats(golden, target, width, 1e-2).alone_count, 0u);
    for (float& x : golden) x += error(random);
    EXPECT_EQ(MatchFloats(golden, target, width, 1e-2).alone_count, 0u);
    target[10] = 2;
    EXPECT_EQ(MatchFloats(golden, target, width, 1e-2).alone_count, 1u);
  }
}

TEST(RowMatcherTest, NotANumberIsEqualToItself) {
  const std::vector<float> golden = {kNaN, 1, 2, kInfinity, 3, 4};
  const RowMatch equal = MatchFloats(golden, {3, 4, kNaN, 1, 2, kInfinity}, 2);
  EXPECT_THAT(equal.partners, ElementsAre(1, 2, 0));
  const RowMatch near =
      MatchFloats(golden, {3, 4.001, -kNaN, 1.001, 2.001, kInfinity}, 2, 0.01);
  EXPECT_EQ(near.alone_count, 0u);
  EXPECT_THAT(near.partners, ElementsAre(1, 2, 0));
  const RowMatch other =
      MatchFloats(golden, {3, 4, 7, 1, 2, -kInfinity}, 2, 0.01);
  EXPECT_EQ(other.alone_count, 2u);
  EXPECT_THAT(other.alone_golden, ElementsAre(0, 1));
  for (const float wrong : {kNaN, kInfinity}) {
    EXPECT_EQ(MatchFloats({wrong, 1, 2}, {5, 1, 2}, 1, 0.1).alone_count, 1u);
    EXPECT_EQ(MatchFloats({5, 1, 2}, {wrong, 1, 2}, 1, 0.1).alone_count, 1u);
    EXPECT_EQ(MatchFloats({wrong, 1, 2}, {1.01, -wrong, 2}, 1, 0.1).alone_count,
              std::isnan(wrong) ? 0u : 1u);
  }
}

TEST(RowMatcherTest, ZerosOfBothSignsAndOtherTypesAreEqual) {
  EXPECT_EQ(MatchFloats({0, 1, 2, 3}, {2, 3, -0.0F, 1}, 2).alone_count, 0u);
  const std::vector<int32_t> golden = {7, 8, 9, 1, 2, 3};
  const std::vector<int64_t> target = {1, 2, 3, 7, 8, 9};
  const RowMatch match = Match(Side(golden, DType::kInt32),
                               Side(target, DType::kInt64), {1, 2, 3}, 0);
  EXPECT_EQ(match.alone_count, 0u);
  EXPECT_THAT(match.partners, ElementsAre(1, 0));
}

TEST(RowMatcherTest, MatchesEachType) {
  std::mt19937 random(7);
  for (const DType dtype :
       {DType::kBool, DType::kInt8, DType::kUint64, DType::kBfloat16,
        DType::kFloat16, DType::kFloat8E4m3fn, DType::kComplex64,
        DType::kComplex128}) {
    const size_t width = 5 * ElementBytes(dtype);
    std::vector<uint8_t> golden(40 * width);
    for (uint8_t& x : golden) x = static_cast<uint8_t>(random());
    std::vector<uint8_t> target(golden.rbegin(), golden.rend());
    for (size_t row = 0; row < 40; ++row) {
      std::copy_n(&golden[(39 - row) * width], width, &target[row * width]);
    }
    const RowMatch match =
        Match(Side(golden, dtype), Side(target, dtype), {1, 40, 5}, 0.1);
    EXPECT_EQ(match.alone_count, 0u) << DTypeName(dtype);
  }
}

TEST(RowMatcherTest, RowsMayBeOfAnyDimension) {
  // The columns of two matrices, each of 2 x 3 elements.
  const std::vector<float> golden = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<float> target = {3, 1, 2, 6, 4, 5, 9, 7, 8, 12, 10, 11};
  const RowMatch match = Match(Side(golden, DType::kFloat32),
                               Side(target, DType::kFloat32), {4, 3, 1}, 0);
  EXPECT_THAT(match.partners, ElementsAre(1, 2, 0));
  EXPECT_EQ(match.moved_count, 3u);
  EXPECT_THAT(match.alone_golden, IsEmpty());
}

TEST(RowMatcherTest, StopsIfTheCheckFails) {
  std::mt19937 random(8);
  const std::vector<float> golden = Normal(1 << 20, random);
  EXPECT_TRUE(absl::IsCancelled(
      MatchRows(Side(golden, DType::kFloat32), Side(golden, DType::kFloat32),
                {1, 1 << 14, 64}, 0, [] { return absl::CancelledError(); })
          .status()));
}

// A figure rather than a limit: 10^6 rows take a few seconds. Run with
// --gtest_also_run_disabled_tests.
TEST(RowMatcherTest, DISABLED_OneMillionRows) {
  std::mt19937 random(9);
  constexpr size_t kCount = 1000000;
  for (const uint64_t width : {1, 2, 8, 64}) {
    const std::vector<float> golden = Normal(kCount * width, random);
    for (const double noise : {0.0, 1e-6, 4e-3}) {
      const Shuffled shuffled = Shuffle(golden, width, noise, random);
      const auto begin = std::chrono::steady_clock::now();
      const RowMatch match =
          MatchFloats(shuffled.golden, shuffled.target, width, 8 * noise);
      const std::chrono::duration<double> taken =
          std::chrono::steady_clock::now() - begin;
      printf("width %d noise %g: %.2f s, %d alone\n", static_cast<int>(width),
             noise, taken.count(), static_cast<int>(match.alone_count));
    }
  }
}

}  // namespace
}  // namespace msitd::compare
