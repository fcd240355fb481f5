// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/view_hints.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ViewHintsTest : public ::testing::Test {
 protected:
  const TensorPair& Pair(const std::string& op, Io io,
                         const std::string& index = "0") {
    LogicalTensor& tensor = tensors_.emplace_back();
    tensor.key.op = op;
    tensor.key.io = io;
    tensor.key.index = index;
    group_.pairs.push_back({&tensor, &tensor});
    return group_.pairs.back();
  }

  // Adds a failing pair. Returns whether it was examined.
  bool Fail(const std::string& op, Io io, const std::string& index = "0",
            const Rearrangement& found = kRows) {
    const TensorPair& pair = Pair(op, io, index);
    if (!hints_.Wants(pair)) return false;
    hints_.Add(pair, found);
    return true;
  }

  std::vector<std::string> Flags() {
    hints_.EndGroup(group_);
    hints_.Show(comparison_);
    std::vector<std::string> out;
    for (const v1::ViewHint& hint : comparison_.view_hints()) {
      out.insert(out.end(), hint.flags().begin(), hint.flags().end());
    }
    return out;
  }

  static inline const Rearrangement kRows = {Rearrangement::Kind::kRows,
                                             "any_order(0)"};
  static inline const Rearrangement kAxes = {Rearrangement::Kind::kAxes,
                                             "permute(1,0)", true};

  std::deque<LogicalTensor> tensors_;
  TensorGroup group_;
  ViewHints hints_;
  v1::Comparison comparison_;
};

TEST_F(ViewHintsTest, FewPatternsCoverExperts) {
  Pair("m.0.gate", Io::kOutput);
  Pair("m.0", Io::kOutput);
  int examined = 0;
  for (int layer = 0; layer < 2; ++layer) {
    for (int expert = 0; expert < 8; ++expert) {
      for (const char* part : {"", ".w1", ".w2"}) {
        for (const Io io : {Io::kInput, Io::kOutput}) {
          const std::string op =
              fmt::format("m.{}.experts.{}{}", layer, expert, part);
          examined += Fail(op, io) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_EQ(examined, 12);
  EXPECT_THAT(Flags(),
              ElementsAre("--target-view 'm.*.experts.*@input=any_order(0)'",
                          "--target-view 'm.*.experts.*@output=any_order(0)'"));
  EXPECT_EQ(comparison_.view_hints(0).row_count(), 96);
  EXPECT_EQ(comparison_.view_hints(0).finding(),
            "m.0.experts.0 input/0 of target has the rows of golden in another "
            "order, and 95 more failing rows may");
  EXPECT_THAT(comparison_.view_hints(0).unchecked(), HasSubstr("order"));
}

TEST_F(ViewHintsTest, PatternsDoNotCoverOtherTensors) {
  Fail("layers.0", Io::kOutput);
  Fail("layers.1", Io::kOutput);
  Pair("layers.0.attention", Io::kOutput);
  EXPECT_THAT(Flags(),
              ElementsAre("--target-view 'layers.0@output/0=any_order(0)'",
                          "--target-view 'layers.1@output/0=any_order(0)'"));
}

TEST_F(ViewHintsTest, PatternsMayNameAnIndex) {
  Fail("l.0.fc", Io::kOutput, "0", kAxes);
  Fail("l.1.fc", Io::kOutput, "0", kAxes);
  Pair("l.0.fc", Io::kOutput, "1");
  EXPECT_THAT(Flags(),
              ElementsAre("--golden-view 'l.*.fc@output/0=permute(1,0)'"));
  EXPECT_EQ(comparison_.view_hints(0).unchecked(), "");
}

TEST_F(ViewHintsTest, ExaminesAFewPairsOnly) {
  int examined = 0;
  for (int i = 0; i < 10000; ++i) {
    examined += hints_.Wants(Pair(fmt::format("op{}", i), Io::kOutput)) ? 1 : 0;
  }
  EXPECT_EQ(examined, ViewHints::kExaminedMax);
  EXPECT_THAT(Flags(), IsEmpty());
}

TEST_F(ViewHintsTest, OpsThatFlagsCannotNameAreLeftOut) {
  Fail("a*b", Io::kOutput);
  EXPECT_THAT(Flags(), IsEmpty());
}

}  // namespace
}  // namespace msitd::compare
