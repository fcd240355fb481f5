// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/group_set.h"
#include "daemon/compare/match/group_windows.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/shard/lean_shards.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/compare/generated_run.h"
#include "tests/unit/daemon/compare/row_observer.h"

// Tests of comparisons of runs that do not fit into memory.
namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

// Returns the peak memory of the process so far.
uint64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Measures how much a step increases the peak memory.
class PeakMeter {
 public:
  void ExpectAtMost(uint64_t bytes) const {
    const uint64_t rise = PeakBytes() - before_;
    ::testing::Test::RecordProperty("peak_mib", static_cast<int>(rise / kMib));
    // Sanitizers use additional memory.
    if (!kIsSlow) {
      EXPECT_LE(rise / kMib, bytes / kMib);
    }
  }

 private:
  const uint64_t before_ = PeakBytes();
};

std::string PlacementOf(int32_t rank_count, const std::string& kind) {
  return fmt::format("0+{}/1:{}", rank_count, kind);
}

// Returns a run with a mesh of all ranks, and with tensors of single ranks. Op
// names begin with `a` in the first half and with `b` in the second half.
GeneratedSpec Mesh(const std::string& name, int32_t rank_count,
                   size_t op_count) {
  GeneratedSpec out{.name = name, .rank_count = rank_count};
  for (size_t i = 0; i < op_count; ++i) {
    GeneratedSpec::Op& op = out.ops.emplace_back();
    op.name = fmt::format("{}.{}", i < op_count / 2 ? 'a' : 'b', i);
    op.shape = {2, 2};
    switch (i % 16) {
      case 0:
        break;
      case 1:
        op.placement = PlacementOf(rank_count, "R");
        op.is_copy = true;
        break;
      case 2:
        op.placement = PlacementOf(rank_count, "S(1)");
        break;
      default:
        op.placement = PlacementOf(rank_count, "S(0)");
    }
  }
  return out;
}

// Returns the rows of a comparison without their numbers and without the fields
// that depend on previous rows of the group. These are in `origins`.
std::vector<std::string> RowsOf(GeneratedRuns& runs,
                                std::vector<std::string> op_patterns,
                                std::vector<v1::Origin>& origins) {
  ComparisonPlan plan{"g", "t", {}, {}};
  plan.selector.op_patterns = std::move(op_patterns);
  // The rows of the mesh, and those of rank 0 itself.
  plan.selector.ranks = {0};
  RowObserver observer;
  const absl::Status status = ComparisonEngine(runs, plan, observer).Run();
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> out;
  for (v1::ComparisonRow& row : observer.rows) {
    row.clear_row();
    origins.push_back(row.origin());
    row.clear_origin();
    row.clear_amplification();
    row.clear_roundings();
    out.push_back(row.ShortDebugString());
  }
  return out;
}

TEST(ScaleTest, TenMillionGroupsTakeLittleMemory) {
  const int64_t token_count = kIsSlow ? 500 : 10'000;
  GeneratedSpec spec{.name = "g",
                     .rank_count = 1024,
                     .token_count = token_count,
                     .token_step = 3,
                     .ops = {{"op"}}};
  const PeakMeter peak;
  const auto golden = MakeGeneratedRun(spec);
  spec.name = "t";
  const auto target = MakeGeneratedRun(spec);
  const auto matcher = GroupMatcher::Create(
      *golden, *target, {}, *MatchRules::Create(v1::Matching()));
  ASSERT_TRUE(matcher.ok()) << matcher.status();
  ASSERT_EQ(matcher->groups().count(), 1024 * static_cast<size_t>(token_count));
  EXPECT_EQ(matcher->groups().run_count(), 1024u);
  // As for a followed run, all groups except the last one have been compared.
  GroupSet done;
  GroupCursor keys(matcher->groups());
  size_t count = 0;
  bool is_in_order = true;
  while (const auto key = keys.Next()) {
    is_in_order &= *key == GroupKey{static_cast<int64_t>(count / 1024) * 3,
                                    static_cast<int32_t>(count % 1024)};
    done.Insert(*key);
    ++count;
  }
  EXPECT_TRUE(is_in_order);
  EXPECT_EQ(count, matcher->groups().count());
  EXPECT_EQ(done.count(), count);
  EXPECT_EQ(done.run_count(), 1024u);
  const auto group = matcher->Load({(token_count - 1) * 3, 1023},
                                   [] { return absl::OkStatus(); });
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->pairs.size(), 1u);
  peak.ExpectAtMost(16 * kMib);
}

TEST(ScaleTest, LookingForGroupsCanBeStopped) {
  const GeneratedSpec spec{.name = "g",
                           .rank_count = 1024,
                           .token_count = 1'000'000'000,
                           .ops = {{"op"}}};
  const auto run = MakeGeneratedRun(spec);
  int asked_count = 0;
  const auto matcher = GroupMatcher::Create(
      *run, *run, {}, *MatchRules::Create(v1::Matching()), false,
      [&asked_count] {
        return ++asked_count > 10 ? absl::CancelledError("enough")
                                  : absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsCancelled(matcher.status())) << matcher.status();
}

TEST(ScaleTest, AWideGroupHasTheRowsOfItsParts) {
  constexpr int32_t kRanks = 256;
  constexpr size_t kOps = 640;
  static_assert(kRanks * kOps > kGroupTensorsMax);
  static_assert(kRanks * kOps / 2 < kGroupTensorsMax);
  GeneratedSpec golden = Mesh("g", kRanks, kOps);
  GeneratedSpec target = Mesh("t", kRanks, kOps);
  // A shard along each dimension, a shard of the whole mesh, a copy, and a
  // tensor of rank 0 itself.
  target.values[{3, 77}] = -5;
  target.values[{2, 200}] = -6;
  for (int32_t rank = 0; rank < kRanks; ++rank) target.values[{5, rank}] = 9;
  target.values[{17, 9}] = 4;
  target.values[{16, 0}] = 4;
  target.values[{632, 255}] = 4;
  // A tensor that the target lacks.
  target.ops[600].name = "b.other";
  GeneratedRuns runs({golden, target});
  std::vector<v1::Origin> wide_origins;
  std::vector<v1::Origin> origins;
  const std::vector<std::string> wide = RowsOf(runs, {}, wide_origins);
  std::vector<std::string> parts = RowsOf(runs, {"a*"}, origins);
  for (const std::string& row : RowsOf(runs, {"b*"}, origins)) {
    parts.push_back(row);
  }
  ASSERT_EQ(wide.size(), kOps + 1);
  ASSERT_EQ(parts.size(), wide.size());
  // The shards of a wide group are not kept in memory, so they are not named.
  const std::regex shards(", in the shard of (target|golden) rank [0-9]+");
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(wide[i], std::regex_replace(parts[i], shards, "")) << i;
  }
  size_t fail_count = 0;
  for (const std::string& row : wide) {
    fail_count += row.find("verdict: FAIL") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(fail_count, 6u);
  EXPECT_EQ(wide_origins[632], v1::PASSED_ON) << "by those in the other half";
  EXPECT_EQ(origins[632], v1::CREATED);
  origins[632] = wide_origins[632];
  EXPECT_EQ(wide_origins, origins);
}

TEST(ScaleTest, ShardsOfAWideGroupAreLookedUpAgain) {
  constexpr int32_t kRanks = 256;
  const GeneratedSpec spec = Mesh("g", kRanks, 640);
  GeneratedSpec other = spec;
  other.name = "t";
  const auto golden = MakeGeneratedRun(spec);
  const auto target = MakeGeneratedRun(other);
  const auto matcher = GroupMatcher::Create(
      *golden, *target, {}, *MatchRules::Create(v1::Matching()));
  ASSERT_TRUE(matcher.ok()) << matcher.status();
  const auto group = matcher->Load({0, 0}, [] { return absl::OkStatus(); });
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_EQ(group->pairs.size(), 640u);
  size_t lean_count = 0;
  for (const TensorPair& pair : group->pairs) {
    if (pair.golden->assembly == nullptr) continue;
    EXPECT_EQ(RanksOf(*pair.golden->assembly).size(), size_t{kRanks});
    if (!pair.golden->assembly->lean.has_value()) continue;
    ++lean_count;
    EXPECT_TRUE(HashesAgree(*pair.golden, *pair.target));
    EXPECT_FALSE(HasHash(*pair.golden));
  }
  EXPECT_EQ(lean_count, 560u) << "copies and tensors of rank 0 are not";
  const auto shards = LoadShards(*group->pairs[2].golden, *golden,
                                 [] { return absl::OkStatus(); });
  ASSERT_TRUE(shards.ok()) << shards.status();
  ASSERT_EQ(shards->size(), size_t{kRanks});
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ((*shards)[rank].key.rank, rank);
    EXPECT_EQ((*shards)[rank].parts.size(), 1u);
  }
  // Some shards have changed or disappeared.
  GeneratedSpec changed = spec;
  changed.values[{2, 7}] = 1;
  const auto refusal = [&](const GeneratedSpec& now) {
    return LoadShards(*group->pairs[2].golden, *MakeGeneratedRun(now),
                      [] { return absl::OkStatus(); })
        .status();
  };
  EXPECT_TRUE(absl::IsDataLoss(refusal(changed))) << refusal(changed);
  changed = spec;
  changed.rank_count = 250;
  EXPECT_TRUE(absl::IsNotFound(refusal(changed)));
  EXPECT_THAT(refusal(changed).ToString(),
              HasSubstr("6 of its 256 shards are not there any more"));
}

// Returns a run with more tensors at one rank and token than a group can hold.
GeneratedSpec TooLarge(const std::string& name) {
  GeneratedSpec out{.name = name};
  for (size_t i = 0; i <= kGroupTensorsMax; ++i) {
    out.ops.push_back({fmt::format("op.{}", i), {1}});
  }
  return out;
}

TEST(ScaleTest, TooManyTensorsOfOneRankAreComparedInWindows) {
  GeneratedSpec golden = TooLarge("g");
  GeneratedSpec target = TooLarge("t");
  target.ops.push_back({"only in target", {1}});
  const std::vector<size_t> changed = {kWindowTensorsMax + 7,
                                       2 * kWindowTensorsMax};
  for (const size_t op : changed) target.values[{op, 0}] = -5;
  const size_t count = golden.ops.size();
  GeneratedRuns runs({std::move(golden), std::move(target)});
  const ComparisonPlan plan{"g", "t", {}, {}};
  RowObserver observer;
  const absl::Status status = ComparisonEngine(runs, plan, observer).Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(observer.rows.size(), count + 1);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(observer.rows[i].op(), fmt::format("op.{}", i));
    const bool is_changed =
        std::find(changed.begin(), changed.end(), i) != changed.end();
    ASSERT_EQ(observer.rows[i].verdict(), is_changed ? v1::FAIL : v1::PASS);
  }
  EXPECT_EQ(observer.rows.back().op(), "only in target");
  EXPECT_EQ(observer.rows.back().verdict(), v1::UNMATCHED);
  EXPECT_EQ(observer.comparison.first_divergence().row(),
            static_cast<int64_t>(changed[0]));
  // Its inputs may be in the previous window.
  ASSERT_EQ(observer.comparison.makers_size(), 1);
  EXPECT_EQ(observer.comparison.makers(0).kind(), v1::Maker::NOT_KNOWN);
  // Without an op, readers would assume that the order of the run is unknown.
  EXPECT_EQ(observer.comparison.makers(0).op(),
            fmt::format("op.{}", changed[0]));
  EXPECT_EQ(observer.comparison.not_compared_count(), 0);
}

TEST(ScaleTest, TooManyTensorsThatCannotBeSplitAreNotCompared) {
  GeneratedRuns runs({TooLarge("g"), TooLarge("t")});
  v1::Matching matching;
  matching.set_fuzzy(true);
  ComparisonPlan plan{"g", "t", {}, {}};
  plan.matching = *MatchRules::Create(matching);
  RowObserver observer;
  const absl::Status status = ComparisonEngine(runs, plan, observer).Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(observer.rows.size(), 1u);
  EXPECT_EQ(observer.rows[0].verdict(), v1::SKIPPED);
  EXPECT_TRUE(observer.rows[0].not_compared());
  EXPECT_THAT(observer.rows[0].reason(), HasSubstr("run g has more than"));
}

// 20 million descriptors. Runs only if MSITD_TEST_LONG is set.
TEST(ScaleTest, AMeshOf1024RanksWithTenThousandTensors) {
  if (std::getenv("MSITD_TEST_LONG") == nullptr) {
    GTEST_SKIP() << "MSITD_TEST_LONG is not set";
  }
  GeneratedSpec golden = Mesh("g", 1024, 10'000);
  GeneratedSpec target = Mesh("t", 1024, 10'000);
  target.values[{7'003, 1000}] = -5;
  target.values[{2, 1000}] = -5;
  GeneratedRuns runs({std::move(golden), std::move(target)});
  ComparisonPlan plan{"g", "t", {}, {}};
  plan.selector.ranks = {0};
  RowObserver observer;
  const PeakMeter peak;
  const absl::Status status = ComparisonEngine(runs, plan, observer).Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(observer.comparison.pass_count(), 9'998);
  EXPECT_EQ(observer.comparison.fail_count(), 2);
  peak.ExpectAtMost(512 * kMib);
}

}  // namespace
}  // namespace msitd::compare
