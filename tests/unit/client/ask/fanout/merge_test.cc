// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "msitd/v1/attachment_service.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::ask {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Ranges>
void AddRange(Ranges* ranges, int32_t first, int32_t last) {
  auto& range = *ranges->Add();
  range.set_first(first);
  range.set_last(last);
}

// Returns a sealed run of four ranks, of which a node holds some.
v1::Run RunOf(int32_t first, int32_t last) {
  v1::Run run;
  run.set_name("r");
  run.set_world_size(4);
  run.set_state(v1::Run::SEALED);
  run.mutable_create_time()->set_seconds(100 + first);
  run.mutable_seal_time()->set_seconds(200 + first);
  run.mutable_counters()->set_tensor_count(10);
  (*run.mutable_labels())["model"] = "m";
  AddRange(run.mutable_ranks_held(), first, last);
  if (first > 0) AddRange(run.mutable_ranks_lacking(), 0, first - 1);
  if (last < 3) AddRange(run.mutable_ranks_lacking(), last + 1, 3);
  run.set_partial(true);
  return run;
}

template <typename Message>
Message Merged(const std::vector<Message>& messages,
               std::vector<std::string>& notes) {
  std::vector<NodeAnswer> parts;
  const char* const names[] = {"a", "b", "c"};
  for (size_t i = 0; i < messages.size(); ++i) {
    parts.push_back({&messages[i], names[i]});
  }
  Message out;
  Merge(parts, out, notes);
  return out;
}

TEST(MergeTest, RunIsWholeIfAllRanksAreSomewhere) {
  std::vector<std::string> notes;
  const v1::Run run = Merged<v1::Run>({RunOf(2, 3), RunOf(0, 1)}, notes);
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_FALSE(run.partial());
  ASSERT_EQ(run.ranks_held_size(), 1);
  EXPECT_EQ(run.ranks_held(0).last(), 3);
  EXPECT_EQ(run.counters().tensor_count(), 20);
  EXPECT_EQ(run.create_time().seconds(), 100);
  EXPECT_EQ(run.seal_time().seconds(), 202);
  EXPECT_EQ(run.state(), v1::Run::SEALED);
}

// A run is archived after all of its parts are archived.
TEST(MergeTest, ArchiveIsThatOfTheNodeThatLagsBehind) {
  using Archive = v1::RunArchive;
  const std::vector<Archive::State> order = {
      Archive::FAILED, Archive::STATE_UNSPECIFIED, Archive::PENDING,
      Archive::RUNNING, Archive::ARCHIVED};
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = 0; j < order.size(); ++j) {
      v1::Run first = RunOf(0, 1);
      v1::Run second = RunOf(2, 3);
      // A run that was never archived has no archive.
      if (order[i] != Archive::STATE_UNSPECIFIED) {
        first.mutable_archive()->set_state(order[i]);
      }
      if (order[j] != Archive::STATE_UNSPECIFIED) {
        second.mutable_archive()->set_state(order[j]);
      }
      std::vector<std::string> notes;
      const v1::Run run = Merged<v1::Run>({first, second}, notes);
      EXPECT_EQ(run.archive().state(), order[std::min(i, j)]) << i << j;
      EXPECT_EQ(run.has_archive(),
                order[std::min(i, j)] != Archive::STATE_UNSPECIFIED);
    }
  }
}

TEST(MergeTest, RunLacksWhatNoNodeHolds) {
  std::vector<std::string> notes;
  v1::Run active = RunOf(3, 3);
  active.set_state(v1::Run::ACTIVE);
  const v1::Run run = Merged<v1::Run>({RunOf(0, 1), active}, notes);
  EXPECT_TRUE(run.partial());
  ASSERT_EQ(run.ranks_lacking_size(), 1);
  EXPECT_EQ(run.ranks_lacking(0).first(), 2);
  EXPECT_EQ(run.state(), v1::Run::ACTIVE);
  EXPECT_FALSE(run.has_seal_time());
}

TEST(MergeTest, DisagreementIsToldOf) {
  std::vector<std::string> notes;
  v1::Run other = RunOf(2, 3);
  other.set_world_size(8);
  (*other.mutable_labels())["model"] = "n";
  (*other.mutable_labels())["more"] = "x";
  other.mutable_retention()->set_pinned(true);
  const v1::Run run = Merged<v1::Run>({RunOf(0, 1), other}, notes);
  EXPECT_EQ(run.world_size(), 8);
  EXPECT_EQ(run.labels().at("more"), "x");
  EXPECT_THAT(notes, ElementsAre(HasSubstr("world size of run r: b"),
                                 HasSubstr("label model of run r: b"),
                                 HasSubstr("the retention of run r: b")));
}

v1::SummarizeTensorsResponse Reduction(int32_t rank, const std::string& key,
                                       double value) {
  v1::SummarizeTensorsResponse response;
  AddRange(response.mutable_ranks_held(), rank, rank);
  auto& group = *response.add_groups();
  group.set_key(key);
  group.set_tensor_count(1);
  v1::Summary& summary = *group.mutable_summary();
  summary.set_count(2);
  summary.set_nan_count(1);
  summary.set_min(value);
  summary.set_max(value);
  summary.set_abs_max(value < 0 ? -value : value);
  summary.set_sum(value);
  summary.set_mean(value);
  summary.set_l1_norm(value < 0 ? -value : value);
  summary.set_l2_norm(value < 0 ? -value : value);
  return response;
}

TEST(MergeTest, GroupsAreReducedTogether) {
  std::vector<std::string> notes;
  const auto all = Merged<v1::SummarizeTensorsResponse>(
      {Reduction(1, "", -4), Reduction(0, "", 3)}, notes);
  ASSERT_EQ(all.groups_size(), 1);
  EXPECT_EQ(all.groups(0).tensor_count(), 2);
  const v1::Summary& summary = all.groups(0).summary();
  EXPECT_EQ(summary.count(), 4);
  EXPECT_EQ(summary.nan_count(), 2);
  EXPECT_EQ(summary.min(), -4);
  EXPECT_EQ(summary.max(), 3);
  EXPECT_EQ(summary.abs_max(), 4);
  EXPECT_EQ(summary.sum(), -1);
  EXPECT_EQ(summary.mean(), -0.5);
  EXPECT_EQ(summary.l1_norm(), 7);
  EXPECT_EQ(summary.l2_norm(), 5);
}

TEST(MergeTest, GroupsOfNumbersAscendAndOthersKeepTheirOrder) {
  std::vector<std::string> notes;
  const auto ranks = Merged<v1::SummarizeTensorsResponse>(
      {Reduction(0, "10", 1), Reduction(1, "9", 1)}, notes);
  EXPECT_EQ(ranks.groups(0).key(), "9");
  const auto ops = Merged<v1::SummarizeTensorsResponse>(
      {Reduction(1, "a", 1), Reduction(0, "b", 1)}, notes);
  EXPECT_EQ(ops.groups(0).key(), "b");
}

TEST(MergeTest, EmptyGroupAddsNothing) {
  std::vector<std::string> notes;
  v1::SummarizeTensorsResponse empty;
  empty.add_groups();
  for (const auto& parts : {std::vector{empty, Reduction(0, "", 3)},
                            std::vector{Reduction(0, "", 3), empty}}) {
    const auto all = Merged<v1::SummarizeTensorsResponse>(parts, notes);
    ASSERT_EQ(all.groups_size(), 1);
    EXPECT_EQ(all.groups(0).summary().min(), 3);
    EXPECT_EQ(all.groups(0).tensor_count(), 1);
  }
}

TEST(MergeTest, LargestNormsStayFinite) {
  std::vector<std::string> notes;
  const auto all = Merged<v1::SummarizeTensorsResponse>(
      {Reduction(0, "", 3e200), Reduction(1, "", 4e200)}, notes);
  EXPECT_DOUBLE_EQ(all.groups(0).summary().l2_norm(), 5e200);
}

TEST(MergeTest, OtherAnswersAreRefused) {
  EXPECT_FALSE(CanMerge(*v1::Attachment::descriptor()));
  EXPECT_FALSE(CanMerge(*v1::Histogram::descriptor()));
  EXPECT_TRUE(CanMerge(*v1::Run::descriptor()));
}

TEST(CompareRowsTest, TensorsAreInTheOrderOfTheIndex) {
  v1::Tensor a;
  a.set_rank(1);
  a.set_token(2);
  a.set_op("x");
  v1::Tensor b = a;
  EXPECT_EQ(CompareRows(a, b), 0);
  b.set_op("y");
  EXPECT_LT(CompareRows(a, b), 0);
  b.set_token(1);
  EXPECT_GT(CompareRows(a, b), 0);
  b.set_rank(2);
  EXPECT_LT(CompareRows(a, b), 0);
}

TEST(CompareRowsTest, RowsAreOrderedByTokenThenRank) {
  v1::ComparisonRow a;
  a.set_token(1);
  a.set_rank(5);
  a.set_row(100);
  v1::ComparisonRow b;
  b.set_token(2);
  EXPECT_LT(CompareRows(a, b), 0);
  b.set_token(1);
  EXPECT_GT(CompareRows(a, b), 0);
  // Rows of one rank keep the order that their node reports.
  b.set_rank(5);
  EXPECT_EQ(CompareRows(a, b), 0);
}

}  // namespace
}  // namespace msitd::ask
