// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/logits_name.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::msit_command {
namespace {

TEST(LogitsNameTest, LastTwoPartsAreCaseAndToken) {
  const LogitsName name = ParseLogitsName("logits_mmlu_0_012_3.pth");
  EXPECT_EQ(name.problem, "");
  EXPECT_EQ(name.key, "12");
  EXPECT_EQ(name.token, 3);
}

TEST(LogitsNameTest, LanguageIsPartOfTheKey) {
  const LogitsName name = ParseLogitsName("logits_python_007_x_4.pth");
  EXPECT_EQ(name.problem, "");
  EXPECT_EQ(name.key, "python/007");
  EXPECT_EQ(name.token, 4);
}

TEST(LogitsNameTest, LastLanguageCounts) {
  EXPECT_EQ(ParseLogitsName("go_1_cpp_2_3.pth").key, "cpp/2");
  EXPECT_EQ(ParseLogitsName("cpp_1_2_go.pth").key, "go/1");
}

TEST(LogitsNameTest, SaysWhatIsWrong) {
  EXPECT_EQ(ParseLogitsName("logits.pth").problem, "invalid logits file name");
  EXPECT_EQ(ParseLogitsName("").problem, "invalid logits file name");
  EXPECT_EQ(ParseLogitsName("a_b_1.pth").problem, "invalid_format_b_1");
  EXPECT_EQ(ParseLogitsName("a_1_.pth").problem, "invalid_format_1_");
  EXPECT_EQ(ParseLogitsName("js_1.pth").problem, "missing_digits_after_js");
  EXPECT_EQ(ParseLogitsName("js_x_y.pth").problem, "missing_digits_after_js");
}

TEST(LogitsNameTest, NumbersAreBounded) {
  const std::string long_number(19, '9');
  EXPECT_NE(ParseLogitsName("a_1_" + long_number + ".pth").problem, "");
  EXPECT_NE(ParseLogitsName("js_" + long_number + "_1.pth").problem, "");
  EXPECT_EQ(ParseLogitsName("a_1_" + long_number.substr(2) + ".pth").problem,
            "");
}

TEST(LogitsNameTest, OrderIsThatOfTheReport) {
  const auto order = [](const char* name) {
    return ParseLogitsName(name).order;
  };
  EXPECT_LT(order("a_2_9.pth"), order("a_10_0.pth"));
  EXPECT_LT(order("a_10_0.pth"), order("cpp_1_0.pth"));
  EXPECT_LT(order("cpp_1_2.pth"), order("cpp_1_10.pth"));
  EXPECT_LT(order("cpp_2_0.pth"), order("cpp_10_0.pth"));
  EXPECT_LT(order("cpp_10_0.pth"), order("go_1_0.pth"));
  EXPECT_LT(order("go_1_0.pth"), order("nothing.pth"));
}

}  // namespace
}  // namespace msitd::msit_command
