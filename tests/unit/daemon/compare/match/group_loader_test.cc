// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/status/mutex.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/support/named_runs.h"
#include "tests/unit/daemon/compare/one_thread_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

// A run whose scans, except the first one, wait until several are in progress.
class FarRun final : public storage::RunReader {
 public:
  FarRun(storage::RunReader& run, size_t together)
      : run_(run), together_(together) {}

  const std::string& name() const override { return run_.name(); }
  bool is_far() const override { return true; }
  absl::StatusOr<storage::RunInfo> GetInfo() override { return run_.GetInfo(); }
  absl::StatusOr<std::vector<storage::RankCoverage>> ListCoverage() override {
    return run_.ListCoverage();
  }
  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    return run_.ListRanks();
  }
  absl::StatusOr<std::vector<storage::Coordinate>> ListCoordinates(
      const Selector& selector) override {
    return run_.ListCoordinates(selector);
  }
  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    return run_.ListPlacements();
  }
  absl::StatusOr<std::unique_ptr<storage::TensorScan>> Scan(
      Selector selector, std::string_view position) override {
    AwaitOthers();
    return run_.Scan(std::move(selector), position);
  }
  absl::StatusOr<storage::TensorInfo> GetTensor(const TensorKey& key) override {
    return run_.GetTensor(key);
  }
  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const storage::PartInfo& part, AlignedBuffer& buffer) override {
    return run_.ReadPart(part, buffer);
  }
  std::unique_ptr<storage::PartBatch> ReadParts(
      std::span<const storage::PartInfo> parts,
      AlignedBuffer& buffer) override {
    return run_.ReadParts(parts, buffer);
  }
  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const storage::TensorInfo& tensor, size_t part,
      AlignedBuffer& buffer) override {
    return run_.ReadSample(tensor, part, buffer);
  }

  // Returns the maximum number of concurrent scans.
  size_t most() {
    const MutexLock lock(mu_);
    return most_;
  }

 private:
  static constexpr std::chrono::seconds kPatience{2};

  void AwaitOthers() {
    const MutexLock lock(mu_);
    most_ = std::max(most_, ++scan_count_);
    changed_.NotifyAll();
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!is_first_ && most_ < together_) {
      if (!changed_.WaitUntil(mu_, until)) break;
    }
    is_first_ = false;
    --scan_count_;
  }

  storage::RunReader& run_;
  const size_t together_;
  Mutex mu_;
  CondVar changed_;
  size_t scan_count_ ABSL_GUARDED_BY(mu_) = 0;
  size_t most_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_first_ ABSL_GUARDED_BY(mu_) = true;
};

class GroupLoaderTest : public ::testing::Test {
 protected:
  // Records `op_count` tensors at each of `token_count` tokens in both runs.
  const GroupMatcher& Matcher(int64_t token_count, size_t op_count = 2,
                              size_t together = 0) {
    for (int64_t token = 0; token < token_count; ++token) {
      for (size_t op = 0; op < op_count; ++op) {
        RecordedTensor tensor = Floats("op." + std::to_string(op), {1});
        tensor.token = token;
        golden_.Record(tensor);
        target_.Record(tensor);
      }
    }
    storage::RunReader* golden = *runs_.Open("g");
    if (together > 0) golden = &far_.emplace(*golden, together);
    auto matcher = GroupMatcher::Create(*golden, **runs_.Open("t"), {},
                                        *MatchRules::Create(v1::Matching()));
    EXPECT_TRUE(matcher.ok()) << matcher.status();
    matcher_.emplace(*std::move(matcher));
    EXPECT_EQ(matcher_->groups().count(), static_cast<size_t>(token_count));
    return *matcher_;
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  testing::NamedRuns runs_{store_};
  std::optional<FarRun> far_;
  std::optional<GroupMatcher> matcher_;
  OneThreadObserver observer_;
  std::atomic<int64_t> loaded_count_{0};
  // Tokens are reported in ascending order.
  std::vector<int64_t> told_;
  const GroupLoader::OnLoaded on_loaded_ = [this](const TensorGroup& group) {
    told_.push_back(group.token);
    ++loaded_count_;
  };
};

TEST_F(GroupLoaderTest, GroupsComeInOrderWithTheirPairs) {
  GroupSet some;
  for (const int64_t token : {17, 3, 4}) some.Insert({token, 0});
  GroupLoader loader(Matcher(20), some, observer_, on_loaded_);
  for (const int64_t token : {3, 4, 17}) {
    const auto group = loader.Next();
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_EQ(group->token, token);
    ASSERT_EQ(group->pairs.size(), 2u);
    for (const TensorPair& pair : group->pairs) {
      ASSERT_NE(pair.golden, nullptr);
      ASSERT_NE(pair.target, nullptr);
      EXPECT_EQ(pair.golden->key.op, pair.target->key.op);
      EXPECT_EQ(pair.target->key.token, token);
    }
  }
}

TEST_F(GroupLoaderTest, NothingNeedsToBeTaken) {
  const GroupMatcher& matcher = Matcher(20);
  const auto nobody = [](const TensorGroup&) {};
  const GroupSet no_groups;
  GroupLoader none(matcher, no_groups, observer_, nobody);
  GroupLoader untouched(matcher, matcher.groups(), observer_, nobody);
  GroupLoader left(matcher, matcher.groups(), observer_, nobody);
  EXPECT_TRUE(left.Next().ok());
}

TEST_F(GroupLoaderTest, ObserverEndsIt) {
  const GroupMatcher& matcher = Matcher(20);
  GroupLoader loader(matcher, matcher.groups(), observer_, on_loaded_);
  EXPECT_TRUE(loader.Next().ok());
  EXPECT_TRUE(loader.Next().ok());
  observer_.is_cancelled = true;
  EXPECT_TRUE(absl::IsCancelled(loader.Next().status()));
}

TEST_F(GroupLoaderTest, GroupsAreToldOfBeforeTheyAreGivenOut) {
  const GroupMatcher& matcher = Matcher(20);
  {
    GroupLoader loader(matcher, matcher.groups(), observer_, on_loaded_);
    for (int64_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(loader.Next().ok());
      EXPECT_GT(loaded_count_, i);
    }
  }
  EXPECT_EQ(told_.size(), 20u);
  EXPECT_TRUE(std::is_sorted(told_.begin(), told_.end()));
}

TEST_F(GroupLoaderTest, OneGroupIsAheadIfItIsLarge) {
  const GroupMatcher& matcher = Matcher(4, GroupLoader::kAheadTensorsMax / 2);
  GroupLoader loader(matcher, matcher.groups(), observer_, on_loaded_);
  for (int64_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(loader.Next().ok());
    EXPECT_LE(loaded_count_, i + 1);
  }
}

TEST_F(GroupLoaderTest, SeveralAreAskedForAtATimeOfARunThatIsFar) {
  const GroupMatcher& matcher = Matcher(100, 2, GroupLoader::kFarLoadsMax);
  GroupLoader loader(matcher, matcher.groups(), observer_, on_loaded_);
  for (int64_t token = 0; token < 100; ++token) {
    const auto group = loader.Next();
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_EQ(group->token, token);
  }
  EXPECT_EQ(far_->most(), GroupLoader::kFarLoadsMax);
  EXPECT_EQ(told_.size(), 100u);
  EXPECT_TRUE(std::is_sorted(told_.begin(), told_.end()));
}

TEST_F(GroupLoaderTest, FewLargeOnesAreAskedForAtATimeOfARunThatIsFar) {
  // Both sides of two groups.
  const size_t op_count = GroupLoader::kAheadTensorsMax / 4;
  const GroupMatcher& matcher = Matcher(6, op_count, 2);
  GroupLoader loader(matcher, matcher.groups(), observer_, on_loaded_);
  for (int64_t i = 1; i <= 6; ++i) {
    ASSERT_TRUE(loader.Next().ok());
    EXPECT_LE(loaded_count_, i + 2);
  }
  EXPECT_LE(far_->most(), 2u);
}

TEST_F(GroupLoaderTest, OneThatIsFarNeedsNotToBeTaken) {
  const GroupMatcher& matcher = Matcher(20, 2, 1);
  GroupLoader loader(matcher, matcher.groups(), observer_, on_loaded_);
  EXPECT_TRUE(loader.Next().ok());
}

TEST_F(GroupLoaderTest, ErrorsComeInTheirPlace) {
  const GroupMatcher& matcher = Matcher(100);
  GroupLoader loader(matcher, matcher.groups(), observer_,
                     [this](const TensorGroup&) {
                       if (++loaded_count_ == 50) {
                         EXPECT_TRUE(store_.DeleteRun("t").ok());
                       }
                     });
  for (int i = 0; i < 100; ++i) {
    const absl::Status status = loader.Next().status();
    EXPECT_EQ(status.ok(), i < 50) << i;
    EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  }
}

}  // namespace
}  // namespace msitd::compare
