// SPDX-License-Identifier: Apache-2.0
// Tests of rows of requests in tensors that are seen through views.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/unit/daemon/compare/joined_rows_fixture.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Returns 0, 1, ... with `first` added.
std::vector<float> Counting(size_t count, float first) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

class JoinedViewsTest : public JoinedRowsFixture {
 protected:
  // A prompt of three tokens with a separate q, k and v, and the same as the
  // second row of a padded batch with a fused one.
  void RecordFused(float error) {
    Tell(golden_, 0, "a", "0:1@0/1,3");
    Record(golden_, 0, "l.q", {1, 2, 11, 12, 21, 22}, {1, 3, 2});
    Record(golden_, 0, "l.k", {3, 13, 23}, {1, 3, 1});
    Record(golden_, 0, "l.v", {4, 14, 24}, {1, 3, 1});
    Tell(target_, 0, "b", "0:1@0/2,4");
    Tell(target_, 0, "a", "1:2,1:4@0/2,4");
    std::vector<float> fused(16, 99);
    for (const float row : {-1.0F, 0.0F, 1.0F, 2.0F}) {
      for (const float column : {1.0F, 2.0F, 3.0F, 4.0F}) {
        fused.push_back(row < 0 ? -77 : 10 * row + column);
      }
    }
    fused[16 + 2 * 4 + 2] += error;
    Record(target_, 0, "l.qkv", fused, {2, 4, 4});
  }

  void SplitFused() {
    for (const auto& [part, name] :
         {std::pair(0, "q"), std::pair(1, "k"), std::pair(2, "v")}) {
      AddView(false, "*.qkv", fmt::format("split(-1,2:1:1,{})", part),
              fmt::format("*.{}", name));
    }
  }

  static MappedPair Line(std::string target, std::string target_view,
                         std::string golden, std::string golden_view) {
    MappedPair out;
    out.target = {std::move(target), {}, Io::kOutput, "0"};
    out.golden = {std::move(golden), {}, Io::kOutput, "0"};
    out.target_view = std::move(target_view);
    out.golden_view = std::move(golden_view);
    return out;
  }

  void Map(const std::vector<MappedPair>& lines) {
    auto mapping = std::make_shared<TensorMapping>();
    for (const MappedPair& line : lines) {
      const absl::Status status = mapping->Add(line);
      ASSERT_TRUE(status.ok()) << status;
    }
    mapping_ = std::move(mapping);
    matching_.mutable_mapping()->set_side(v1::Matching::Mapping::TARGET);
    matching_.mutable_mapping()->set_attachment("m");
  }
};

MSITD_ON_BOTH_STORES(JoinedViewsTest);

TEST_P(JoinedViewsTest, PartsOfAFusedTensorAreJoined) {
  RecordFused(0.5F);
  SplitFused();
  const auto rows = RowsByOp();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows.at("l.q").verdict(), v1::PASS) << rows.at("l.q").reason();
  EXPECT_EQ(rows.at("l.k").verdict(), v1::FAIL);
  EXPECT_EQ(rows.at("l.v").verdict(), v1::PASS);
  EXPECT_THAT(rows.at("l.k").reason(),
              HasSubstr("at [1]: target 13.5, golden 13"));
  EXPECT_THAT(rows.at("l.k").reason(),
              HasSubstr("target view split(-1,2:1:1,1)"));
  EXPECT_EQ(rows.at("l.k").target().view(),
            "positions 0-2 of split(-1,2:1:1,1)");
  EXPECT_EQ(rows.at("l.k").golden().view(), "positions 0-2");
  // The views read all rows of the request.
  EXPECT_EQ(rows.at("l.qkv").verdict(), v1::SKIPPED);
  EXPECT_FALSE(rows.at("l.qkv").not_compared()) << rows.at("l.qkv").reason();
  EXPECT_EQ(comparison_.not_compared_count(), 0);
}

// A part that no view reads must not look like one that was compared.
TEST_P(JoinedViewsTest, PartsThatAreNotReadAreReported) {
  RecordFused(0);
  AddView(false, "*.qkv", "split(-1,2:1:1,0)", "*.q");
  AddView(false, "*.qkv", "split(-1,2:1:1,1)", "*.k");
  const auto rows = RowsByOp();
  EXPECT_EQ(rows.at("l.q").verdict(), v1::PASS);
  EXPECT_TRUE(rows.at("l.qkv").not_compared());
  EXPECT_THAT(rows.at("l.qkv").reason(), HasSubstr("not all of it"));
}

TEST_P(JoinedViewsTest, ViewsOfSeveralTokensAreJoined) {
  Tell(golden_, 0, "a", "0:1@0/1,5");
  Record(golden_, 0, "norm", {11, 22, 33, 44, 55}, {1, 5, 1});
  for (int64_t token = 0; token < 5; ++token) {
    Tell(target_, token, "a", fmt::format("0:1@{}/1,1", token));
    const auto value = static_cast<float>(token + 1);
    Record(target_, token, "norm", {value}, {1, 1, 1});
    RecordedTensor residual = Shaped(token, "norm", {10 * value}, {1, 1, 1});
    residual.index = "1";
    target_.Record(residual);
  }
  v1::View& sum = AddView(false, "norm", "sum(@output/1)");
  sum.set_index("0");
  std::vector<v1::ComparisonRow> rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].target().view(), "positions 0-4 of sum(@output/1)");
  EXPECT_THAT(rows[0].target().shape(), ElementsAre(5));
  EXPECT_EQ(rows[1].verdict(), v1::SKIPPED);
  EXPECT_FALSE(rows[1].not_compared()) << rows[1].reason();
}

TEST_P(JoinedViewsTest, AFaultInASumIsFound) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:3@0/3");
    for (const char* const index : {"0", "1"}) {
      RecordedTensor one = Shaped(0, "norm", Counting(3, 1), {3});
      if (run == &target_ && index[0] == '1') {
        one = Shaped(0, "norm", {1, 2, 7}, {3});
      }
      one.index = index;
      run->Record(one);
    }
    v1::View& sum = AddView(run == &golden_, "norm", "sum(@output/1)");
    sum.set_index("0");
  }
  const auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::FAIL);
  EXPECT_THAT(rows.at(0).reason(), HasSubstr("at [2]: target 10, golden 6"));
}

TEST_P(JoinedViewsTest, TheRowsAreThoseOfTheView) {
  // [s,b,h] with b == h: only the view states which dimension is which.
  Tell(golden_, 0, "a", "0:1@0/2,3");
  Tell(golden_, 0, "b", "1:2@0/2,3");
  Record(golden_, 0, "op", Counting(12, 0), {2, 3, 2});
  Tell(target_, 0, "a", "0:1@0/2,3");
  Tell(target_, 0, "b", "1:2@0/2,3");
  std::vector<float> values;
  for (const int s : {0, 1, 2}) {
    for (const int b : {0, 1}) {
      for (const int h : {0, 1}) {
        values.push_back(static_cast<float>(6 * b + 2 * s + h));
      }
    }
  }
  Record(target_, 0, "op", values, {3, 2, 2});
  AddView(false, "op", "permute(1,0,2)");
  Rows();
  EXPECT_EQ(comparison_.pass_count(), 2);
  EXPECT_EQ(comparison_.fail_count(), 0);
}

TEST_P(JoinedViewsTest, LinesOfAMappingHaveViews) {
  RecordFused(0.5F);
  Map({Line("l.qkv", "split(-1,2:1:1,0)", "l.q", ""),
       Line("l.qkv", "split(-1,2:1:1,1)", "l.k", ""),
       Line("l.qkv", "split(-1,2:1:1,2)", "l.v", "")});
  std::vector<v1::ComparisonRow> rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(comparison_.pass_count(), 2);
  EXPECT_EQ(comparison_.fail_count(), 1);
  EXPECT_EQ(comparison_.first_divergence().op(), "l.k");
}

TEST_P(JoinedViewsTest, LinesOfAMappingHaveViewsOfGoldenTensors) {
  // Two prompts; the chunks of the target belong to different golden tokens.
  for (const int64_t token : {0, 1}) {
    const std::string id(1, static_cast<char>('a' + token));
    Tell(golden_, token, id, "0:1@0/1,4");
    std::vector<float> fused;
    for (int i = 0; i < 4; ++i) {
      for (const int part : {0, 1}) {
        fused.push_back(static_cast<float>(100 * token + 10 * i + part));
      }
    }
    Record(golden_, token, "kv", fused, {1, 4, 2});
  }
  for (const int64_t token : {0, 1}) {
    Tell(target_, token, "a", fmt::format("0:2@{}/4", 2 * token));
    Tell(target_, token, "b", fmt::format("2:4@{}/4", 2 * token));
    for (const int part : {0, 1}) {
      std::vector<float> values;
      for (const int id : {0, 1}) {
        for (const int64_t i : {2 * token, 2 * token + 1}) {
          values.push_back(static_cast<float>(100 * id + 10 * i + part));
        }
      }
      Record(target_, token, part == 0 ? "k" : "v", values, {4, 1});
    }
  }
  Map({Line("k", "", "kv", "split(-1,1:1,0)"),
       Line("v", "", "kv", "split(-1,1:1,1)")});
  Rows();
  EXPECT_EQ(comparison_.pass_count(), 4);
  EXPECT_EQ(comparison_.skipped_count(), 2);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
  EXPECT_EQ(comparison_.unmatched_count(), 0);
}

TEST_P(JoinedViewsTest, AMappingWithoutViewsPairsOps) {
  Tell(golden_, 0, "a", "0:1@0/1,2");
  Record(golden_, 0, "attn.proj", {1, 2}, {1, 2});
  Tell(target_, 0, "a", "0:1,1:3@0/1,3");
  Record(target_, 0, "h.0.c_proj", {9, 1, 2}, {1, 3});
  Map({Line("h.0.c_proj", "", "attn.proj", "")});
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
}

TEST_P(JoinedViewsTest, WeightsAreDequantizedAsAWhole) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:1@0/2");
    Tell(*run, 0, "b", "1:2@0/2");
    RecordedTensor weight =
        Floats("lin", run == &golden_ ? std::vector<float>{2, 4}
                                      : std::vector<float>{1, 2});
    weight.io = Io::kWeight;
    weight.index = "weight";
    run->Record(weight);
    Record(*run, 0, "lin", {1, 2}, {2});
  }
  RecordedTensor scale = Floats("lin", {2});
  scale.io = Io::kWeight;
  scale.index = "scale";
  target_.Record(scale);
  v1::View& view = AddView(false, "lin", "dequantize(@weight/scale)");
  view.set_io(v1::IO_WEIGHT);
  view.set_index("weight");
  Rows();
  EXPECT_EQ(comparison_.pass_count(), 3);
  EXPECT_EQ(comparison_.skipped_count(), 1);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
}

TEST_P(JoinedViewsTest, AViewThatDoesNotFitIsAReason) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:1@0/1,2");
    Record(*run, 0, "op", {1, 2}, {1, 2});
    Record(*run, 0, "other", {1, 2}, {1, 2});
    Record(*run, 0, "rows", {1, 2}, {1, 2});
    Record(*run, 0, "scalar", {1, 2}, {1, 2});
  }
  AddView(false, "op", "permute(1,0,2)");
  AddView(true, "other", "concat(0,absent)");
  AddView(true, "rows", "any_order(0)");
  AddView(false, "scalar", "slice(0,0:1).slice(1,0:1).reshape(1,1,1)");
  const auto rows = RowsByOp();
  for (const auto& [op, row] : rows) {
    EXPECT_EQ(row.verdict(), v1::SKIPPED) << op << row.reason();
    EXPECT_TRUE(row.not_compared()) << op;
  }
  EXPECT_EQ(comparison_.not_compared_count(), 4);
  EXPECT_THAT(rows.at("op").reason(),
              HasSubstr("target view positions 0-1 of permute(1,0,2): "
                        "permute(1,0,2) does not fit [1,2]"));
  EXPECT_THAT(rows.at("other").reason(), HasSubstr("absent@output/0"));
  EXPECT_THAT(rows.at("rows").reason(), HasSubstr("order of their positions"));
}

// The target tokens have different views of equal names.
TEST_P(JoinedViewsTest, TokensThatDifferAreAReason) {
  Tell(golden_, 0, "a", "0:2@0/2");
  Record(golden_, 0, "op", {2, 4}, {2});
  for (const int64_t token : {0, 1}) {
    Tell(target_, token, "a", fmt::format("0:1@{}/1", token));
    Record(target_, token, "op", {static_cast<float>(token + 1)}, {1});
    RecordedTensor other = Shaped(token, "other", {1}, {1});
    if (token == 1) other = Bfloats("other", {1});
    other.token = token;
    target_.Record(other);
  }
  AddView(false, "op", "sum(other)");
  const auto rows = RowsByOp();
  EXPECT_EQ(rows.at("op").verdict(), v1::SKIPPED);
  EXPECT_THAT(rows.at("op").reason(),
              HasSubstr("other shapes or types at another token"));
}

// Several rules may give different tensors one name.
TEST_P(JoinedViewsTest, NamesTwiceAreNotJoined) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:2@0/2");
    Record(*run, 0, "one", {1, 2}, {2});
    Record(*run, 0, "two", {3, 4}, {2});
    AddView(run == &golden_, "one", "flatten", "both");
    AddView(run == &golden_, "two", "flatten", "both");
  }
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 0);
  EXPECT_EQ(comparison_.pass_count(), 4);
}

TEST_P(JoinedViewsTest, TooManyTensorsAreRefused) {
  constexpr int kTerms = 8;
  Tell(golden_, 0, "a", "0:1@0/1,40");
  Record(golden_, 0, "op", std::vector<float>(40, kTerms), {1, 40});
  std::string leaves;
  for (int i = 1; i < kTerms; ++i) {
    leaves += fmt::format("{}@output/{}", i == 1 ? "" : ",", i);
  }
  for (int64_t token = 0; token < 40; ++token) {
    Tell(target_, token, "a", fmt::format("0:1@{}/1,1", token));
    for (int i = 0; i < kTerms; ++i) {
      RecordedTensor one = Shaped(token, "op", {1}, {1, 1});
      one.index = std::to_string(i);
      target_.Record(one);
    }
  }
  AddView(false, "op", fmt::format("sum({})", leaves)).set_index("0");
  std::vector<v1::ComparisonRow> rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::SKIPPED);
  EXPECT_THAT(rows[0].reason(), HasSubstr("it reads 320 tensors, at most 256"));
}

// Views of many tokens, each with several leaves, in any order of requests.
TEST_P(JoinedViewsTest, MoreThan64TensorsAreRead) {
  constexpr int64_t kLength = 50;
  Tell(golden_, 0, "a", fmt::format("0:1@0/1,{}", kLength));
  std::vector<float> golden;
  for (int64_t i = 0; i < kLength; ++i) {
    golden.insert(golden.end(), {static_cast<float>(i), -1, 7});
  }
  Record(golden_, 0, "op", golden, {1, kLength, 3});
  for (int64_t token = 0; token < kLength; ++token) {
    Tell(target_, token, "a", fmt::format("0:1@{}/1,1", token));
    Record(target_, token, "op", {static_cast<float>(token)}, {1, 1, 1});
    Record(target_, token, "x", {-1}, {1, 1, 1});
    Record(target_, token, "y", {7}, {1, 1, 1});
  }
  AddView(false, "op", "concat(-1,x,y)");
  const auto rows = RowsByOp();
  EXPECT_EQ(rows.at("op").verdict(), v1::PASS) << rows.at("op").reason();
  EXPECT_FALSE(rows.at("x").not_compared()) << rows.at("x").reason();
  EXPECT_THAT(rows.at("op").target().shape(), ElementsAre(kLength, 3));
}

}  // namespace
}  // namespace msitd::compare
