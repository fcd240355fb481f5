// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/names/msit_names.h"

#include <gtest/gtest.h>

#include <utility>

namespace msitd::names {
namespace {

TEST(MsitNamesTest, NamesOfTensorsGoBothWays) {
  struct Case {
    const char* stem;
    Io io;
    const char* index;
    const char* row;
  };
  for (const Case& one : {Case{"input_0", Io::kInput, "0", "0"},
                          Case{"input_12", Io::kInput, "12", "12"},
                          Case{"output_1_0", Io::kOutput, "1.0", "0"},
                          Case{"output_1_2_3", Io::kOutput, "1.2.3", "3"}}) {
    const MsitTensorName name{one.io, one.index};
    EXPECT_EQ(ParseMsitStem(one.stem), name) << one.stem;
    EXPECT_EQ(MsitStem(one.io, one.index, false), one.stem);
    EXPECT_EQ(MsitRowIndex(one.stem), one.row);
  }
}

TEST(MsitNamesTest, KeywordsAndKeysGoBothWays) {
  for (const auto& [stem, index] :
       {std::pair{"input_attention_mask", "attention_mask"},
        std::pair{"output_logits", "logits"},
        std::pair{"input_past_key_values_0_1", "past_key_values.0.1"},
        std::pair{"input_0_mask", "0.mask"}}) {
    const Io io = stem[0] == 'i' ? Io::kInput : Io::kOutput;
    EXPECT_EQ(ParseMsitStem(stem), (MsitTensorName{io, index})) << stem;
    EXPECT_EQ(MsitStem(io, index, false), stem);
  }
}

TEST(MsitNamesTest, OneThatIsAloneHasNoNumber) {
  EXPECT_EQ(MsitStem(Io::kOutput, "0", true), "output");
  EXPECT_EQ(MsitStem(Io::kInput, "", false), "input");
  EXPECT_EQ(ParseMsitStem("output"), (MsitTensorName{Io::kOutput, "0"}));
  EXPECT_EQ(MsitRowIndex("output"), "0");
}

TEST(MsitNamesTest, OtherNamesAreNone) {
  for (const char* stem :
       {"", "inputs", "input_", "input__0", "input_0_", "input_a b",
        "output_-1", "Input_0", "weight", "_0"}) {
    EXPECT_EQ(ParseMsitStem(stem), std::nullopt) << stem;
  }
  EXPECT_EQ(MsitRowIndex("12"), "0");
  EXPECT_EQ(MsitRowIndex("input_"), "0");
  EXPECT_EQ(MsitRowIndex("input_x"), "0");
}

}  // namespace
}  // namespace msitd::names
