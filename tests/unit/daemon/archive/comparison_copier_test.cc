// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/comparison_copier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "daemon/compare/job/bounded_comparisons.h"
#include "daemon/compare/job/comparison_copy.h"
#include "msitd/v1/comparison_service.pb.h"
#include "storage/archive/archive_source.h"
#include "storage/archive/comparison_objects.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::archive {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Status CopyOn() { return absl::OkStatus(); }

v1::ComparisonRow RowOf(int64_t number) {
  v1::ComparisonRow row;
  row.set_row(number);
  row.mutable_golden()->set_name(
      "runs/g/ranks/0/devices/cpu/tokens/0/ops/a/calls/0/output/0");
  row.mutable_target()->set_name(
      "runs/t/ranks/0/devices/cpu/tokens/0/ops/a/calls/0/output/0");
  return row;
}

v1::Comparison SoundComparison() {
  v1::Comparison out;
  out.set_golden_run("g");
  out.set_target_run("t");
  out.set_owner("uid:7");
  out.set_state(v1::Comparison::DONE);
  out.set_pass_count(2);
  out.mutable_create_time()->set_seconds(5);
  *out.mutable_first_divergence() = RowOf(1);
  return out;
}

class ComparisonCopierTest : public storage::StoreTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_ / "archive");
    const std::string url = "file://" + (dir_ / "archive");
    places_ = *storage::ArchivePlaces::Create({.urls = {url}, .s3 = {}});
    objects_ = *places_->Open(url);
    OpenWithRun("here");
  }

  // Writes a comparison, which may be invalid, to the archive.
  void Put(uint64_t id, const std::string& document,
           const std::vector<std::string>& rows) {
    const auto read =
        [&](uint64_t row) -> absl::StatusOr<std::vector<std::string>> {
      return std::vector<std::string>(
          rows.begin() + static_cast<ptrdiff_t>(row), rows.end());
    };
    ASSERT_TRUE(storage::WriteComparison(*objects_, "t",
                                         {id, document, rows.size(), {}}, read,
                                         CopyOn)
                    .ok());
  }

  CopiedComparisons Restore() { return Restore(store_->comparisons()); }

  CopiedComparisons Restore(storage::Comparisons& comparisons) {
    const RestoredPlace place{
        *objects_, "t", "here", {"uid:1", access::Role::kWriter}};
    auto out = RestoreComparisons(place, comparisons, CopyOn);
    EXPECT_TRUE(out.ok()) << out.status();
    return *std::move(out);
  }

  std::unique_ptr<storage::ArchivePlaces> places_;
  std::shared_ptr<storage::ObjectStore> objects_;
};

TEST_F(ComparisonCopierTest, WhatIsSoundComesBackUnderTheNewName) {
  Put(3, SoundComparison().SerializeAsString(),
      {RowOf(0).SerializeAsString(), RowOf(1).SerializeAsString()});
  const CopiedComparisons done = Restore();
  EXPECT_EQ(done.count, 1u);
  EXPECT_EQ(done.left_count, 0u);
  v1::Comparison found;
  ASSERT_TRUE(found.ParseFromString(*store_->comparisons().GetComparison(3)));
  EXPECT_EQ(found.target_run(), "here");
  EXPECT_EQ(found.golden_run(), "g");
  EXPECT_EQ(found.owner(), "uid:1");
  EXPECT_THAT(found.restored_from(), HasSubstr("/archive/t c-000003"));
  EXPECT_THAT(found.first_divergence().target().name(),
              HasSubstr("runs/here/"));
  EXPECT_THAT(found.first_divergence().golden().name(), HasSubstr("runs/g/"));
  v1::ComparisonRow row;
  const auto rows = *store_->comparisons().GetComparisonRows(3, 0, 10);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_TRUE(row.ParseFromString(rows[1]));
  EXPECT_THAT(row.target().name(), HasSubstr("runs/here/"));
  EXPECT_THAT(row.golden().name(), HasSubstr("runs/g/"));
}

TEST_F(ComparisonCopierTest, WhatIsNoComparisonIsLeft) {
  const std::vector<std::string> rows = {RowOf(0).SerializeAsString(),
                                         RowOf(1).SerializeAsString()};
  uint64_t id = 0;
  const auto put = [&](auto change) {
    v1::Comparison bad = SoundComparison();
    change(bad);
    Put(++id, bad.SerializeAsString(), rows);
  };
  put([](v1::Comparison& c) { c.set_target_run("other"); });
  put([](v1::Comparison& c) { c.set_target_source("s3://bucket"); });
  put([](v1::Comparison& c) { c.set_state(v1::Comparison::RUNNING); });
  put([](v1::Comparison& c) { c.set_pass_count(3); });
  put([](v1::Comparison& c) { c.set_pass_count(-2); });
  put([](v1::Comparison& c) {
    c.set_pass_count(std::numeric_limits<int64_t>::max());
    c.set_fail_count(std::numeric_limits<int64_t>::max());
  });
  put([](v1::Comparison& c) { c.set_golden_run(std::string(4000, 'g')); });
  put([](v1::Comparison& c) { c.clear_golden_run(); });
  Put(++id, "\xff\xff no message", rows);
  Put(++id, "", rows);
  // Rows that cannot be parsed, and rows with wrong numbers.
  Put(++id, SoundComparison().SerializeAsString(), {rows[0], "\xff"});
  Put(++id, SoundComparison().SerializeAsString(), {rows[1], rows[0]});
  const CopiedComparisons done = Restore();
  EXPECT_EQ(done.count, 0u);
  EXPECT_EQ(done.left_count, id);
  EXPECT_FALSE(done.problems.empty());
  EXPECT_LE(done.problems.size(), 8u);
  EXPECT_THAT(*store_->comparisons().ListComparisons(0, 100), IsEmpty());
}

TEST_F(ComparisonCopierTest, WhatHasNoRoomIsLeft) {
  v1::ComparisonRow large = RowOf(1);
  large.set_reason(std::string(64 << 10, 'x'));
  Put(3, SoundComparison().SerializeAsString(),
      {RowOf(0).SerializeAsString(), large.SerializeAsString()});
  v1::Comparison later = SoundComparison();
  later.mutable_create_time()->set_seconds(6);
  Put(4, later.SerializeAsString(),
      {RowOf(0).SerializeAsString(), RowOf(1).SerializeAsString()});
  const auto bounded = *compare::BoundedComparisons::Create(
      store_->comparisons(), {.bytes_max = 16 << 10});
  // A comparison of the caller that has ended.
  v1::Comparison own = SoundComparison();
  own.set_owner("uid:1");
  own.set_target_run("here");
  const std::string runs[] = {"here"};
  const uint64_t kept =
      *bounded->CreateComparison(own.SerializeAsString(), runs);
  const CopiedComparisons done = Restore(*bounded);
  EXPECT_EQ(done.count, 1u);
  EXPECT_EQ(done.left_count, 1u);
  EXPECT_THAT(done.problems, ElementsAre(HasSubstr("c-000003")));
  EXPECT_THAT(done.problems, ElementsAre(HasSubstr("retain_comparison_bytes")));
  EXPECT_TRUE(bounded->GetComparison(kept).ok());
  EXPECT_TRUE(bounded->GetComparison(4).ok());
  EXPECT_TRUE(absl::IsNotFound(bounded->GetComparison(3).status()));
}

TEST_F(ComparisonCopierTest, TheVersionWithMostMetricsCounts) {
  const std::vector<std::string> rows = {RowOf(0).SerializeAsString(),
                                         RowOf(1).SerializeAsString()};
  for (const int count : {1, 3, 2, 0}) {
    v1::Comparison version = SoundComparison();
    for (int i = 0; i < count; ++i) version.add_custom_metrics("metric");
    Put(4, version.SerializeAsString(), rows);
  }
  EXPECT_EQ(Restore().count, 1u);
  v1::Comparison found;
  ASSERT_TRUE(found.ParseFromString(*store_->comparisons().GetComparison(4)));
  EXPECT_EQ(found.custom_metrics_size(), 3);
}

}  // namespace
}  // namespace msitd::archive
