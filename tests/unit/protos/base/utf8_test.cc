// SPDX-License-Identifier: Apache-2.0
#include "protos/base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace msitd {
namespace {

std::string Encode(uint32_t code_point, int bytes) {
  static constexpr unsigned char kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  if (bytes == 1) return std::string(1, static_cast<char>(code_point));
  std::string out(bytes, '\0');
  for (int i = bytes - 1; i > 0; --i) {
    out[i] = static_cast<char>(0x80 | (code_point & 0x3f));
    code_point >>= 6;
  }
  out[0] = static_cast<char>(kLead[bytes] | code_point);
  return out;
}

TEST(Utf8Test, AcceptsEveryScalarValueInItsShortestForm) {
  for (uint32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    const int bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    ASSERT_TRUE(IsValidUtf8(Encode(c, bytes))) << c;
  }
}

TEST(Utf8Test, RefusesOverlongForms) {
  for (uint32_t c = 0; c < 0x80; ++c) ASSERT_FALSE(IsValidUtf8(Encode(c, 2)));
  for (uint32_t c = 0; c < 0x800; ++c) ASSERT_FALSE(IsValidUtf8(Encode(c, 3)));
  for (uint32_t c = 0; c < 0x10000; ++c) {
    ASSERT_FALSE(IsValidUtf8(Encode(c, 4))) << c;
  }
}

TEST(Utf8Test, RefusesSurrogatesAndWhatIsAboveTheLastPlane) {
  for (uint32_t c = 0xd800; c <= 0xdfff; ++c) {
    ASSERT_FALSE(IsValidUtf8(Encode(c, 3))) << c;
  }
  EXPECT_FALSE(IsValidUtf8(Encode(0x110000, 4)));
  EXPECT_FALSE(IsValidUtf8("\xf5\x80\x80\x80"));
}

TEST(Utf8Test, PrefixHasWholeCharacters) {
  const std::string whole = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  const size_t lengths[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(Utf8Prefix(whole, i), whole.substr(0, lengths[i])) << i;
  }
  EXPECT_EQ(Utf8Prefix("\x80\x80\x80", 2), "");
  EXPECT_EQ(Utf8Prefix("", 0), "");
}

TEST(Utf8Test, RefusesCutAndStrayBytes) {
  const std::string whole = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  ASSERT_TRUE(IsValidUtf8(whole));
  for (const size_t cut : {2u, 4u, 5u, 7u, 8u, 9u}) {
    EXPECT_FALSE(IsValidUtf8(whole.substr(0, cut))) << cut;
    EXPECT_FALSE(IsValidUtf8(whole.substr(cut))) << cut;
  }
  EXPECT_FALSE(IsValidUtf8("\x80"));
  EXPECT_FALSE(IsValidUtf8("\xff"));
  EXPECT_FALSE(IsValidUtf8("\xc3z"));
  EXPECT_TRUE(IsValidUtf8(""));
}

}  // namespace
}  // namespace msitd
