// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/matching_text.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

namespace msitd::ask {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(MatchingTextTest, EveryRuleIsASentence) {
  v1::Matching matching;
  matching.set_ignore_case(true);
  matching.set_fuzzy(true);
  matching.set_token_offset(-2);
  auto& rewrite = *matching.add_rewrites();
  rewrite.set_regex("^module[.]");
  auto& rank = *matching.add_ranks();
  rank.set_target_rank(3);
  auto& layout = *matching.add_target_layouts();
  layout.set_op_pattern("*.qkv");
  layout.set_io(v1::IO_OUTPUT);
  layout.set_index("0");
  layout.set_kind(v1::Layout::CONCAT);
  layout.set_dim(-1);
  layout.set_group_size(4);
  EXPECT_THAT(
      MatchingLines(matching),
      ElementsAre(
          "in target ops, /^module[.]/ is replaced by \"\"",
          "upper and lower case are the same in names of ops",
          "tensors without a counterpart by name are paired in execution order",
          "golden token 0 is paired with target token -2",
          "golden rank 0 is paired with target rank 3",
          "target shards of *.qkv output/0 are concatenated along dimension "
          "-1, in groups of 4 ranks"));
  EXPECT_THAT(MatchingLines(v1::Matching()), IsEmpty());
}

TEST(MatchingTextTest, ManyRulesAreCounted) {
  v1::Matching matching;
  for (int i = 0; i < 100; ++i) {
    auto& pair = *matching.add_ops();
    pair.set_golden_op("a" + std::to_string(i));
    pair.set_target_op("b");
  }
  EXPECT_THAT(MatchingLines(matching), SizeIs(9));
  EXPECT_THAT(MatchingLines(matching), Contains("92 more pairs of ops"));
}

// A field that this file does not know would be left out silently.
TEST(MatchingTextTest, EveryFieldHasText) {
  const auto* type = v1::Matching::descriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    v1::Matching matching;
    const auto* reflection = matching.GetReflection();
    if (field->is_repeated()) {
      reflection->AddMessage(&matching, field);
    } else if (field->message_type() != nullptr) {
      reflection->MutableMessage(&matching, field);
    } else if (field->type() == google::protobuf::FieldDescriptor::TYPE_BOOL) {
      reflection->SetBool(&matching, field, true);
    } else {
      reflection->SetInt64(&matching, field, 1);
    }
    EXPECT_THAT(MatchingLines(matching), SizeIs(1)) << field->name();
  }
}

}  // namespace
}  // namespace msitd::ask
