// SPDX-License-Identifier: Apache-2.0
#include "protos/base/tensor_key.h"

#include "gtest/gtest.h"

namespace msitd {
namespace {

TEST(IoTest, NumbersAndNamesAreFrozen) {
  constexpr std::string_view kNames[] = {
      "input",       "output",      "weight", "grad_input",
      "grad_output", "grad_weight", "state"};
  ASSERT_EQ(std::size(kNames) + 1, static_cast<size_t>(kIoCount));
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const auto io = static_cast<Io>(i + 1);
    EXPECT_EQ(IoName(io), kNames[i]);
    EXPECT_EQ(ParseIo(kNames[i]), io);
    EXPECT_TRUE(IsValid(io));
  }
}

TEST(IoTest, EveryOtherNumberAndNameIsRefused) {
  EXPECT_FALSE(IsValid(Io::kUnspecified));
  EXPECT_FALSE(IsValid(static_cast<Io>(kIoCount)));
  EXPECT_FALSE(IsValid(static_cast<Io>(255)));
  EXPECT_EQ(IoName(static_cast<Io>(255)), "unspecified");
  EXPECT_FALSE(ParseIo("unspecified").has_value());
  EXPECT_FALSE(ParseIo("Input").has_value());
  EXPECT_FALSE(ParseIo("").has_value());
}

}  // namespace
}  // namespace msitd
