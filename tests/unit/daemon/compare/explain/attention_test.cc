// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "tests/unit/daemon/compare/explain/explained.h"

namespace msitd::compare::explain {
namespace {

using ::testing::IsEmpty;

// An attention of 2 requests with 4 heads of 16 elements, which share 2 heads
// of keys and values.
class AttentionExplanationTest : public ::testing::Test {
 protected:
  explicit AttentionExplanationTest(int64_t queries = 12, int64_t keys = 12)
      : q_(Random({2, 4, queries, 16}, 1)),
        k_(Random({2, 2, keys, 16}, 2)),
        v_(Random({2, 2, keys, 16}, 3)) {
    golden_.scale = 0.25;
    for (size_t head = 0; head < 8; ++head) {
      golden_.key_heads.push_back(head / 2);
    }
    golden_.value_heads = golden_.key_heads;
  }

  std::vector<ExaminedInput> Inputs() const {
    return {{"input/0", q_}, {"input/1", k_}, {"input/2", v_}};
  }

  Elements Attended(const AttentionSetting& setting) const {
    Elements out = q_;
    const ExaminedOp op = OpOf(q_, q_, Inputs());
    const auto inputs = AttentionInputsOf(op, /*has_heads_first=*/true);
    for (size_t head = 0; head < inputs->queries.head_count(); ++head) {
      for (size_t row = 0; row < inputs->queries.length; ++row) {
        inputs->Attend(
            setting, head, row,
            inputs->ProductsOf(head, row, setting.key_heads[head]),
            std::span(out.values)
                .subspan(inputs->queries.At(head, row), inputs->queries.width));
      }
    }
    return out;
  }

  // Returns the explanation of an attention with the setting `target`.
  Explanation Explained(const AttentionSetting& target) const {
    return Only(OpOf(Attended(golden_), Attended(target), Inputs()));
  }

  Elements q_;
  Elements k_;
  Elements v_;
  AttentionSetting golden_;
};

TEST_F(AttentionExplanationTest, EmptyKeysAreNoInputs) {
  const Elements of_no_head{.shape = {2, 0, 12, 16}, .values = {}};
  const Elements of_no_position{.shape = {2, 2, 0, 16}, .values = {}};
  for (const Elements& empty : {of_no_head, of_no_position}) {
    const ExaminedOp op =
        OpOf(q_, q_, {{"input/0", q_}, {"input/1", empty}, {"input/2", empty}});
    for (const bool has_heads_first : {true, false}) {
      EXPECT_FALSE(AttentionInputsOf(op, has_heads_first).has_value());
    }
  }
}

TEST_F(AttentionExplanationTest, OtherMasksOfLongSequencesAreFound) {
  // Only few rows are tried, of which the last one sees all keys.
  for (const int64_t length : {600, 1024}) {
    q_ = Random({1, 1, length, 64}, 1);
    k_ = Random({1, 1, length, 64}, 2);
    v_ = Random({1, 1, length, 64}, 3);
    golden_.scale = 0.125;
    golden_.key_heads = golden_.value_heads = {0};
    AttentionSetting target = golden_;
    target.mask.is_causal = true;
    EXPECT_EQ(Explained(target).text,
              "attention with a causal mask in place of no mask");
  }
}

TEST_F(AttentionExplanationTest, OtherScaleIsFound) {
  golden_.mask.is_causal = true;
  AttentionSetting target = golden_;
  target.scale = 0.125;
  const Explanation found = Explained(target);
  EXPECT_EQ(found.kind, Kind::kSoftmaxScale);
  EXPECT_EQ(found.text,
            "attention of scores * 0.5: scale 0.125 in place of 0.25");
  // A scale that is not the usual one is fitted in golden, too.
  golden_.scale = 0.3;
  EXPECT_EQ(Explained(target).kind, Kind::kSoftmaxScale);
}

TEST_F(AttentionExplanationTest, OtherMasksAreFound) {
  golden_.mask.is_causal = true;
  AttentionSetting target = golden_;
  target.mask = {};
  EXPECT_EQ(Explained(target).text,
            "attention with no mask in place of a causal mask");
  EXPECT_EQ(Explained(target).kind, Kind::kMask);
  target.mask = {.is_causal = true, .shift = 1};
  EXPECT_EQ(Explained(target).text,
            "attention with a causal mask that opens 1 more key of each query");
  target.mask = {.is_causal = true, .window = 4};
  EXPECT_EQ(
      Explained(target).text,
      "attention with a causal window of 4 keys in place of a causal mask");
  target.mask = {.is_causal = true, .begin = 3};
  EXPECT_EQ(
      Explained(target).text,
      "attention with all but the first 3 keys in place of a causal mask");
  target.mask = {.is_causal = true, .end = 8};
  EXPECT_EQ(Explained(target).text,
            "attention with only the first 8 keys in place of a causal mask");
}

TEST_F(AttentionExplanationTest, KeysAndValuesOfOtherHeadsAreFound) {
  AttentionSetting target = golden_;
  target.key_heads = target.value_heads = {0, 1, 0, 1, 2, 3, 2, 3};
  const Explanation found = Explained(target);
  EXPECT_EQ(found.kind, Kind::kOrder);
  EXPECT_EQ(found.text,
            "attention with the keys and values of other heads: "
            "0,1,0,1,2,3,2,3 in place of 0,0,1,1,2,2,3,3");
  target.key_heads = golden_.key_heads;
  EXPECT_EQ(Explained(target).kind, Kind::kOrder);
}

TEST_F(AttentionExplanationTest, MaskThatTheOpReceivedIsUsed) {
  Elements mask{{1, 1, 12, 12}, std::vector<double>(144)};
  for (size_t i = 0; i < 144; ++i)
    mask.values[i] =
        i % 12 > i / 12 ? -std::numeric_limits<double>::infinity() : 0;
  AttentionSetting causal = golden_;
  causal.mask.is_causal = true;
  std::vector<ExaminedInput> inputs = Inputs();
  inputs.push_back({"input/attn_mask", mask});
  const ExaminedOp op =
      OpOf(Attended(causal), Attended(golden_), std::move(inputs));
  EXPECT_EQ(Only(op).text,
            "attention with no mask in place of the mask that it received");
}

TEST_F(AttentionExplanationTest, OtherMistakesAreNotExplained) {
  golden_.mask.is_causal = true;
  AttentionSetting target = golden_;
  // Two mistakes.
  target.scale = 0.125;
  target.mask.window = 4;
  EXPECT_EQ(Explained(target).kind, Kind::kUnspecified);
  // The keys of the next position, which no mask gives.
  Elements moved = Attended(golden_);
  const Elements golden = moved;
  for (double& x : k_.values) x = -x;
  moved = Attended(golden_);
  for (double& x : k_.values) x = -x;
  EXPECT_THAT(Explain(OpOf(golden, moved, Inputs())), IsEmpty());
}

TEST_F(AttentionExplanationTest, OtherGoldenOpIsNotAnAttention) {
  AttentionSetting target = golden_;
  target.scale = 0.125;
  const Elements other = Random({2, 4, 12, 16}, 9);
  EXPECT_THAT(Explain(OpOf(other, Attended(target), Inputs())), IsEmpty());
}

TEST_F(AttentionExplanationTest, RoundingIsNotExplained) {
  golden_.mask.is_causal = true;
  const Elements golden = Attended(golden_);
  const Elements noise = Random({2, 4, 12, 16}, 9);
  const Elements target = Mapped(golden, [&](double x, size_t i) {
    return x + 2e-3 * x * noise.values[i];
  });
  ExaminedOp op = OpOf(golden, target, Inputs());
  EXPECT_THAT(Explain(op), IsEmpty());
  op.noise = NoiseOf(0, DType::kBfloat16);
  EXPECT_THAT(Explain(op), IsEmpty());
}

class DecodeTest : public AttentionExplanationTest {
 protected:
  DecodeTest() : AttentionExplanationTest(1, 20) {}
};

TEST_F(DecodeTest, PrefixThatIsNotReadIsFound) {
  AttentionSetting target = golden_;
  target.mask.begin = 4;
  EXPECT_EQ(Explained(target).text,
            "attention with all but the first 4 keys in place of no mask");
}

TEST(AttentionInputsTest, ShapesThatDoNotFitAreRefused) {
  const auto is_attention = [](std::vector<int64_t> q, std::vector<int64_t> k,
                               std::vector<int64_t> v) {
    const Elements out = Random(q, 4);
    return AttentionInputsOf(OpOf(out, out,
                                  {{"input/0", Random(q)},
                                   {"input/1", Random(std::move(k))},
                                   {"input/2", Random(std::move(v))}}),
                             true)
        .has_value();
  };
  EXPECT_TRUE(is_attention({2, 4, 3, 8}, {2, 2, 5, 8}, {2, 2, 5, 8}));
  EXPECT_FALSE(is_attention({2, 4, 3, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}));
  EXPECT_FALSE(is_attention({2, 4, 3, 8}, {2, 2, 5, 4}, {2, 2, 5, 4}));
  EXPECT_FALSE(is_attention({2, 4, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 8}));
  EXPECT_FALSE(is_attention({4, 8}, {4, 8}, {4, 8}));
}

}  // namespace
}  // namespace msitd::compare::explain
