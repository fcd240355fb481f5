// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/record_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "protos/base/limits.h"
#include "protos/base/utf8.h"

namespace msitd::libmsit {
namespace {

TEST(FitValueTest, LeavesWhatFits) {
  std::string shortened;
  const std::string longest(kValueBytesMax, 'x');
  EXPECT_EQ(FitValue(longest, shortened).data(), longest.data());
  EXPECT_EQ(FitValue("", shortened), "");
}

TEST(FitValueTest, SaysHowLongItWas) {
  std::string shortened;
  const auto fitted = FitValue(std::string(2000, 'x'), shortened);
  EXPECT_EQ(fitted.size(), kValueBytesMax);
  EXPECT_TRUE(fitted.starts_with("xxx"));
  EXPECT_TRUE(fitted.ends_with("x… (2000 bytes, hash 4cb100005f153a65)"));
}

TEST(FitValueTest, LongValuesThatBeginAlikeStayDifferent) {
  std::string a;
  std::string b;
  std::string c;
  const std::string text(5000, 'x');
  EXPECT_NE(FitValue(text + "a", a), FitValue(text + "b", b));
  EXPECT_EQ(FitValue(text + "a", c), a);
}

TEST(FitValueTest, CutsAtACharacter) {
  for (int lead = 0; lead < 4; ++lead) {
    std::string text(lead, 'x');
    while (text.size() < 2000) text += "\U0001f600";
    std::string shortened;
    const auto fitted = FitValue(text, shortened);
    EXPECT_TRUE(IsValidUtf8(fitted)) << lead;
    EXPECT_LE(fitted.size(), kValueBytesMax) << lead;
    EXPECT_GT(fitted.size(), kValueBytesMax - 4) << lead;
  }
}

std::string Frames(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += '\n';
    text += "file.py:" + std::to_string(i) + " function";
  }
  return text;
}

TEST(FitStackTest, LeavesWhatFits) {
  std::string shortened;
  const std::string text = Frames(300);
  ASSERT_LE(text.size(), kStackBytesMax);
  EXPECT_EQ(FitStack(text, shortened), text);
}

TEST(FitStackTest, LeavesOuterFramesOutAndCountsThem) {
  std::string shortened;
  const std::string text = Frames(1000);
  const std::string fitted(FitStack(text, shortened));
  EXPECT_LE(fitted.size(), kStackBytesMax);
  const size_t end = fitted.rfind('\n');
  const auto kept = 1 + std::count(fitted.begin(), fitted.begin() + end, '\n');
  EXPECT_EQ(fitted.substr(0, end), Frames(static_cast<int>(kept)));
  EXPECT_EQ(fitted.substr(end + 1),
            "… " + std::to_string(1000 - kept) + " frames");
}

TEST(FitStackTest, LeavesOutAFrameThatIsTooLong) {
  std::string shortened;
  EXPECT_EQ(FitStack(std::string(9000, 'x'), shortened), "… 1 frames");
  EXPECT_EQ(FitStack(std::string(9000, 'x') + "\ny", shortened), "… 2 frames");
}

}  // namespace
}  // namespace msitd::libmsit
