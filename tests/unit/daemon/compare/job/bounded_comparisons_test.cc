// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/bounded_comparisons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kBudget = uint64_t{1} << 20;
// A single caller may use 11/16 of the budget.
constexpr uint64_t kShare = kBudget / 16 * 11;
constexpr int64_t kNsPerS = 1'000'000'000;

class BoundedComparisonsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({.bytes_max = kBudget}); }

  void Open(BoundedComparisons::Limits limits) {
    auto opened = BoundedComparisons::Create(store_.comparisons(), limits);
    ASSERT_TRUE(opened.ok()) << opened.status();
    bounded_ = *std::move(opened);
  }

  static v1::Comparison Document(const std::string& owner, bool has_ended,
                                 int64_t rows = 0) {
    v1::Comparison out;
    out.set_owner(owner);
    out.set_state(has_ended ? v1::Comparison::DONE : v1::Comparison::RUNNING);
    out.set_pass_count(rows);
    out.mutable_create_time()->set_seconds(1000);
    return out;
  }

  absl::StatusOr<uint64_t> Begin(const std::string& owner) {
    return bounded_->CreateComparison(
        Document(owner, false).SerializeAsString(), {});
  }

  absl::Status PutRows(uint64_t id, uint64_t first, uint64_t bytes) {
    const std::vector<std::string> rows = {std::string(bytes, 'x')};
    return bounded_->PutComparisonRows(id, first, rows);
  }

  // Stores a comparison that has ended, with one row of `bytes` bytes.
  uint64_t Compare(const std::string& owner, uint64_t bytes) {
    const auto id = Begin(owner);
    EXPECT_TRUE(id.ok()) << id.status();
    EXPECT_TRUE(PutRows(*id, 0, bytes).ok());
    End(*id, owner, 1);
    return *id;
  }

  void End(uint64_t id, const std::string& owner, int64_t rows) {
    EXPECT_TRUE(
        bounded_
            ->PutComparison(id, Document(owner, true, rows).SerializeAsString())
            .ok());
  }

  std::vector<uint64_t> Ids() {
    std::vector<uint64_t> ids;
    const auto listed = bounded_->ListComparisons(0, 1000);
    for (const auto& [id, document] : *listed) ids.push_back(id);
    return ids;
  }

  testing::FakeStore store_;
  std::unique_ptr<BoundedComparisons> bounded_;
};

TEST_F(BoundedComparisonsTest, TheOldestOfTheSameOwnerGiveWay) {
  const uint64_t other = Compare("other", kBudget / 32);
  const uint64_t first = Compare("a", kShare / 3);
  const uint64_t second = Compare("a", kShare / 3);
  const uint64_t third = Compare("a", kShare / 2);
  EXPECT_THAT(Ids(), ElementsAre(other, second, third));
  EXPECT_EQ(bounded_->Read().removed_count, 1u);
  EXPECT_EQ(Reason(bounded_->GetComparison(first).status()),
            "COMPARISON_NOT_FOUND");
}

TEST_F(BoundedComparisonsTest, NoRoomIsRefusedAndOthersStay) {
  const uint64_t other = Compare("other", kBudget / 32);
  const auto running = Begin("a");
  ASSERT_TRUE(running.ok());
  ASSERT_TRUE(PutRows(*running, 0, kShare / 2).ok());
  const absl::Status refused = PutRows(*running, 1, kShare / 2 + 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused), "COMPARISONS_EXHAUSTED");
  EXPECT_THAT(Ids(), ElementsAre(other, *running));
  // The end of the comparison is stored nevertheless. The comparison is removed
  // for the next one.
  End(*running, "a", 1);
  const uint64_t next = Compare("a", kShare / 2 + 1);
  EXPECT_THAT(Ids(), ElementsAre(other, next));
}

TEST_F(BoundedComparisonsTest, WhatCanNeverFitRemovesNothing) {
  const uint64_t first = Compare("ann", kShare / 4);
  const uint64_t second = Compare("ann", kShare / 4);
  const auto large = Begin("ann");
  ASSERT_TRUE(large.ok());
  const absl::Status status = PutRows(*large, 0, kShare + 1);
  EXPECT_EQ(Reason(status), "COMPARISONS_EXHAUSTED") << status;
  EXPECT_THAT(Ids(), ElementsAre(first, second, *large));
  EXPECT_EQ(bounded_->Read().removed_count, 0u);
}

TEST_F(BoundedComparisonsTest, ARestoredComparisonRemovesNoOther) {
  const uint64_t first = Compare("ann", kShare / 2);
  const auto restored = bounded_->CreateComparisonAs(
      9, Document("ann", false).SerializeAsString(), {});
  ASSERT_TRUE(restored.ok()) << restored.status();
  const absl::Status status = PutRows(*restored, 0, kShare / 2);
  EXPECT_EQ(Reason(status), "COMPARISONS_EXHAUSTED") << status;
  EXPECT_TRUE(PutRows(*restored, 0, kShare / 4).ok());
  EXPECT_THAT(Ids(), ElementsAre(first, *restored));
  // After it has ended, it is handled like any other comparison.
  End(*restored, "ann", 1);
  Compare("ann", kShare * 3 / 4);
  EXPECT_EQ(bounded_->Read().removed_count, 2u);
}

TEST_F(BoundedComparisonsTest, NewcomersFindRoom) {
  Compare("hog", kShare - 4096);
  for (const char* owner : {"b", "c", "d"}) Compare(owner, kBudget / 16 - 4096);
  EXPECT_EQ(Ids().size(), 4u);
  EXPECT_EQ(bounded_->Read().removed_count, 0u);
}

TEST_F(BoundedComparisonsTest, DeletedComparisonsCountNoLonger) {
  const uint64_t before = bounded_->Read().bytes;
  const uint64_t id = Compare("a", kShare / 2);
  EXPECT_GT(bounded_->Read().bytes, before + kShare / 2);
  ASSERT_TRUE(bounded_->DeleteComparison(id).ok());
  EXPECT_EQ(bounded_->Read().bytes, before);
}

TEST_F(BoundedComparisonsTest, WhatTheStoreRemovedByItselfIsNoticed) {
  const uint64_t gone = Compare("b", kBudget / 32);
  Compare("a", kShare - kBudget / 16);
  ASSERT_TRUE(store_.comparisons().DeleteComparison(gone).ok());
  const auto running = Begin("a");
  ASSERT_TRUE(running.ok());
  EXPECT_TRUE(PutRows(*running, 0, kBudget / 16 - 8192).ok());
  EXPECT_EQ(bounded_->Read().removed_count, 0u);
}

TEST_F(BoundedComparisonsTest, SizesSurviveARestart) {
  const uint64_t id = Compare("a", 100'000);
  const uint64_t bytes = bounded_->Read().bytes;
  v1::Comparison stored;
  ASSERT_TRUE(stored.ParseFromString(*bounded_->GetComparison(id)));
  EXPECT_EQ(static_cast<uint64_t>(stored.stored_size_bytes()), bytes);
  Open({.bytes_max = kBudget});
  EXPECT_NEAR(static_cast<double>(bounded_->Read().bytes),
              static_cast<double>(bytes), 16);
}

TEST_F(BoundedComparisonsTest, RowsThatAreReplacedCountOnce) {
  const uint64_t id = Compare("a", 100'000);
  const uint64_t bytes = bounded_->Read().bytes;
  ASSERT_TRUE(PutRows(id, 0, 100'010).ok());
  EXPECT_EQ(bounded_->Read().bytes, bytes + 10);
}

TEST_F(BoundedComparisonsTest, RowsStopWhenTheDiskHasNoRoom) {
  bool is_full = false;
  Open({.bytes_max = kBudget, .check_room = [&is_full] {
          return is_full ? absl::ResourceExhaustedError("full")
                         : absl::OkStatus();
        }});
  const auto id = Begin("a");
  ASSERT_TRUE(id.ok());
  is_full = true;
  EXPECT_FALSE(PutRows(*id, 0, 100).ok());
  EXPECT_FALSE(Begin("a").ok());
  End(*id, "a", 0);
}

TEST_F(BoundedComparisonsTest, OldOnesGo) {
  Open({.age_max = std::chrono::seconds(100)});
  const uint64_t ended = Compare("a", 100);
  const auto running = Begin("a");
  ASSERT_TRUE(running.ok());
  ASSERT_TRUE(bounded_->RemoveOld(1099 * kNsPerS).ok());
  EXPECT_THAT(Ids(), ElementsAre(ended, *running));
  ASSERT_TRUE(bounded_->RemoveOld(1101 * kNsPerS).ok());
  EXPECT_THAT(Ids(), ElementsAre(*running));
}

}  // namespace
}  // namespace msitd::compare
