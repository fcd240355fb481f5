// SPDX-License-Identifier: Apache-2.0
#include <rocksdb/write_batch.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <thread>

#include "storage/index/db/index_db.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of the bytes that Upkeep::Retain expires, and of those that it keeps.
namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

using ::msitd::testing::FaultEnv;
using ::testing::HasSubstr;

constexpr uint64_t kTensorBytes = 20'000;
// A frame of one such tensor has a page for the head and five for the payload.
constexpr uint64_t kFrameBytes = 6 * 4096;
constexpr int64_t kSecondNs = 1'000'000'000;

class StoreRetainTest : public StoreTest {
 protected:
  // A segment is full after two frames.
  StoreRetainTest() { options_.segment_bytes_max = 2 * kFrameBytes; }

  void Reopen() { ASSERT_TRUE(TryOpen(env_).ok()); }

  void OpenWithRuns(const std::vector<std::string>& runs) {
    Reopen();
    for (const std::string& run : runs) {
      ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
    }
  }

  TestTensor Tensor(const std::string& run, int64_t token) {
    return MakeTensor(run, token, "op", kTensorBytes,
                      static_cast<uint32_t>(1 + token));
  }

  // Appends tensors of tokens [first, last), one frame each.
  void Fill(const std::string& run, int64_t first, int64_t last) {
    for (int64_t token = first; token < last; ++token) {
      ASSERT_TRUE(Append({Tensor(run, token)}).ok());
    }
  }

  // Retains until there is nothing left to do. Returns the number of steps.
  int RetainAll(const RetentionPolicy& policy) {
    for (int steps = 1; steps < 1000; ++steps) {
      const auto step = store_->upkeep().Retain(policy);
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok() || step->is_done) return steps;
    }
    ADD_FAILURE() << "retention does not end";
    return 0;
  }

  void SetLimits(const std::string& run, const RetentionLimits& limits) {
    ASSERT_TRUE(store_->runs().SetRetention(run, {false, limits}).ok());
  }

  // Expects that the bytes of tokens [0, first), and only those, have expired,
  // and that those of [first, last) are readable.
  void ExpectKept(const std::string& run, int64_t first, int64_t last) {
    AlignedBuffer buffer;
    for (int64_t token = 0; token < last; ++token) {
      SCOPED_TRACE(fmt::format("run {} token {}", run, token));
      const TestTensor tensor = Tensor(run, token);
      if (token >= first) {
        ExpectStored(tensor);
        continue;
      }
      const auto info = read_->GetTensor(tensor.key);
      ASSERT_TRUE(info.ok()) << info.status();
      EXPECT_FALSE(info->has_bytes);
      EXPECT_EQ(info->hash, chunk::HashBytes(tensor.bytes));
      EXPECT_EQ(info->summary.count, kTensorBytes);
      const auto bytes = read_->ReadPart(run, info->parts.at(0), buffer);
      EXPECT_EQ(bytes.status().code(), absl::StatusCode::kNotFound);
      EXPECT_EQ(Reason(bytes.status()), "TENSOR_EXPIRED");
    }
    EXPECT_EQ(ScanKeys(run).size(), static_cast<size_t>(last));
    const RunCounters counters = store_->runs().GetRun(run)->counters;
    EXPECT_EQ(counters.expired_bytes, first * kTensorBytes);
    EXPECT_EQ(counters.kept_bytes(), (last - first) * kTensorBytes);
  }

  FaultEnv env_{Env::Posix()};
};

TEST_F(StoreRetainTest, WithoutLimitsNothingGoes) {
  OpenWithRuns({"r"});
  Fill("r", 0, 6);
  EXPECT_EQ(RetainAll({}), 1);
  ExpectKept("r", 0, 6);
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 3u);
}

TEST_F(StoreRetainTest, OldestBytesOfARunGoUntilItsQuotaHolds) {
  OpenWithRuns({"r"});
  Fill("r", 0, 11);
  SetLimits("r", {.bytes_max = 5 * kTensorBytes});
  RetainAll({});
  ExpectKept("r", 6, 11);
  EXPECT_FALSE(fs::exists(SegmentPath(3)));
  EXPECT_TRUE(fs::exists(SegmentPath(4)));
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 3u);
  EXPECT_EQ(store_->upkeep().Stats().expired_bytes, 6 * kTensorBytes);
  Fill("r", 11, 14);
  RetainAll({});
  ExpectKept("r", 9, 14);
}

TEST_F(StoreRetainTest, LimitsOfARunStandForThoseOfTheNode) {
  OpenWithRuns({"r", "s", "pinned"});
  for (const std::string run : {"r", "s", "pinned"}) Fill(run, 0, 6);
  Fill("r", 6, 8);
  SetLimits("s", {.bytes_max = 2 * kTensorBytes});
  ASSERT_TRUE(store_->runs().SetRetention("pinned", {true, {1, 1, 1}}).ok());
  RetainAll({.run = {.bytes_max = 4 * kTensorBytes}});
  ExpectKept("r", 4, 8);
  ExpectKept("s", 4, 6);
  ExpectKept("pinned", 0, 6);
  ASSERT_TRUE(store_->runs().SetRetention("pinned", {}).ok());
  RetainAll({.run = {.bytes_max = 4 * kTensorBytes}});
  ExpectKept("pinned", 2, 6);
}

TEST_F(StoreRetainTest, RunThatCannotBeEmptiedKeepsNothingElse) {
  OpenWithRuns({"gone", "r"});
  Fill("gone", 0, 2);
  Fill("r", 0, 6);
  SetLimits("r", {.bytes_max = 2 * kTensorBytes});
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  {
    const auto db = IndexDb::Open({.directory = options_.directory + "/index"});
    ASSERT_TRUE(db.ok()) << db.status();
    rocksdb::WriteBatch batch;
    (*db)->Put(batch, Table::kSegment, "l damaged", "");
    ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  }
  Reopen();
  ASSERT_TRUE(store_->runs().DeleteRun("gone").ok());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(store_->upkeep().Retain({}).status().code(),
              absl::StatusCode::kDataLoss);
  }
  ExpectKept("r", 4, 6);
  EXPECT_FALSE(fs::exists(SegmentPath(2)));
}

TEST_F(StoreRetainTest, BytesThatAreTooOldGo) {
  OpenWithRuns({"r"});
  Fill("r", 0, 4);
  env_.AdvanceClock(100 * kSecondNs);
  Fill("r", 4, 7);
  RetainAll({.run = {.age_max_ns = 101 * kSecondNs}});
  ExpectKept("r", 0, 7);
  RetainAll({.run = {.age_max_ns = 99 * kSecondNs}});
  ExpectKept("r", 4, 7);
}

constexpr int64_t kDayNs = 24 * 3600 * kSecondNs;

TEST_F(StoreRetainTest, ClockThatIsSetMakesNothingOld) {
  for (const int64_t set_ns : {3650 * kDayNs, -3650 * kDayNs}) {
    const std::string run = set_ns > 0 ? "forward" : "backward";
    OpenWithRuns({run});
    Fill(run, 0, 4);
    const RetentionPolicy policy{.run = {.age_max_ns = kDayNs}};
    RetainAll(policy);
    env_.SetClock(set_ns);
    RetainAll(policy);
    ExpectKept(run, 0, 4);
    EXPECT_EQ(store_->upkeep().Stats().retention_pause != "", set_ns > 0);
    Fill(run, 4, 6);
    // A restart of the daemon or of the machine does not make them older.
    Reopen();
    RetainAll(policy);
    env_.Reboot(kDayNs / 2);
    Reopen();
    RetainAll(policy);
    ExpectKept(run, 0, 6);
    // The time has really passed.
    env_.AdvanceClock(kDayNs);
    RetainAll(policy);
    ExpectKept(run, 6, 6);
    EXPECT_EQ(store_->upkeep().Stats().retention_pause, "");
    env_.SetClock(-set_ns);
    ASSERT_TRUE(store_->runs().DeleteRun(run).ok());
    Drop();
  }
}

TEST_F(StoreRetainTest, ClockThatWasSetWhileNobodyLookedMakesNothingOld) {
  const RetentionPolicy policy{.run = {.age_max_ns = kDayNs}};
  OpenWithRuns({"r"});
  Fill("r", 0, 4);
  RetainAll(policy);
  Drop();
  env_.SetClock(2 * kDayNs);
  Reopen();
  RetainAll(policy);
  ExpectKept("r", 0, 4);
  EXPECT_THAT(store_->upkeep().Stats().retention_pause, HasSubstr("172800 s"));
  Drop();
  env_.Reboot(8 * kDayNs);
  Reopen();
  RetainAll(policy);
  ExpectKept("r", 0, 4);
  EXPECT_THAT(store_->upkeep().Stats().retention_pause,
              HasSubstr("forward 69"));
  env_.AdvanceClock(kDayNs + kSecondNs);
  RetainAll(policy);
  ExpectKept("r", 4, 4);
}

TEST_F(StoreRetainTest, TimeOffIsBelievedAndAClockThatComesBackToo) {
  const RetentionPolicy policy{.run = {.age_max_ns = 4 * kDayNs}};
  OpenWithRuns({"r"});
  Fill("r", 0, 4);
  RetainAll(policy);
  env_.SetClock(3650 * kDayNs);
  RetainAll(policy);
  env_.AdvanceClock(kDayNs);
  env_.SetClock(-3650 * kDayNs);
  RetainAll(policy);
  Drop();
  env_.Reboot(2 * kDayNs);
  Reopen();
  RetainAll(policy);
  ExpectKept("r", 0, 4);
  EXPECT_EQ(store_->upkeep().Stats().retention_pause, "");
  env_.AdvanceClock(kDayNs + kSecondNs);
  RetainAll(policy);
  ExpectKept("r", 4, 4);
}

TEST_F(StoreRetainTest, ClockThatIsSlewedAgesAsBefore) {
  const RetentionPolicy policy{.run = {.age_max_ns = kDayNs}};
  OpenWithRuns({"r"});
  Fill("r", 0, 4);
  RetainAll(policy);
  env_.AdvanceClock(kDayNs);
  env_.SetClock(60 * kSecondNs);
  RetainAll(policy);
  ExpectKept("r", 4, 4);
}

TEST_F(StoreRetainTest, LastTokensAreKept) {
  OpenWithRuns({"r"});
  Fill("r", 0, 9);
  SetLimits("r", {.token_count = 3});
  RetainAll({});
  ExpectKept("r", 6, 9);
}

TEST_F(StoreRetainTest, RunsThatShareSegmentsExpireEachOnItsOwn) {
  const std::vector<std::string> runs = {"a", "b", "c", "d", "e"};
  options_.segment_bytes_max = 7 * kFrameBytes;
  OpenWithRuns(runs);
  // The runs are in ascending order, and in descending order.
  for (int64_t token = 0; token < 6; ++token) {
    for (size_t i = 0; i < runs.size(); ++i) {
      Fill(runs[token % 2 == 0 ? i : runs.size() - 1 - i], token, token + 1);
    }
    if (token == 3) {
      RetainAll({.run = {.token_count = 3}});
      for (const std::string& run : runs) ExpectKept(run, 1, 4);
      Reopen();
    }
  }
  SetLimits("b", {.token_count = 1});
  SetLimits("d", {.token_count = 5});
  RetainAll({.run = {.token_count = 2}});
  ExpectKept("a", 4, 6);
  ExpectKept("b", 5, 6);
  ExpectKept("c", 4, 6);
  ExpectKept("d", 1, 6);
  Reopen();
  RetainAll({.run = {.token_count = 2}});
  ExpectKept("d", 1, 6);
}

TEST_F(StoreRetainTest, AllRunsShareOnePassOverASegment) {
  constexpr size_t kRuns = 200;
  options_.segment_bytes_max = 2 * kRuns * kFrameBytes;
  std::vector<std::string> runs;
  for (size_t i = 0; i < kRuns; ++i) runs.push_back(fmt::format("r{}", i));
  OpenWithRuns(runs);
  // The last runs are written first, so a search for a run finds frames of all
  // others.
  for (size_t i = kRuns; i > 0; --i) Fill(runs[i - 1], 0, 1);
  Drop();
  Reopen();
  env_.FailAt(std::numeric_limits<uint64_t>::max(), absl::OkStatus(), false);
  RetainAll({.run = {.token_count = 1}});
  // The head of each frame is read once, and not once for each run.
  EXPECT_LT(env_.operation_count(), 10 * kRuns);
  ExpectKept(runs.front(), 0, 1);
  ExpectKept(runs.back(), 0, 1);
}

TEST_F(StoreRetainTest, FrameWithATokenToKeepKeepsThoseBehindIt) {
  OpenWithRuns({"r"});
  Fill("r", 0, 1);
  ASSERT_TRUE(Append({Tensor("r", 1), Tensor("r", 50)}).ok());
  Fill("r", 2, 8);
  SetLimits("r", {.token_count = 3});
  RetainAll({});
  EXPECT_FALSE(read_->GetTensor(Tensor("r", 0).key)->has_bytes);
  for (int64_t token = 1; token < 8; ++token) ExpectStored(Tensor("r", token));
}

TEST_F(StoreRetainTest, OldestBytesOfAllRunsGoUntilTheDiskQuotaHolds) {
  OpenWithRuns({"r", "s"});
  Fill("r", 0, 4);
  Fill("s", 0, 4);
  Fill("r", 4, 6);
  const uint64_t before = store_->upkeep().Stats().segment_bytes;
  RetainAll({.disk_bytes_max = before - 5 * kFrameBytes, .run = {}});
  ExpectKept("r", 4, 6);
  EXPECT_FALSE(read_->GetTensor(Tensor("s", 0).key)->has_bytes);
  ExpectStored(Tensor("s", 2));
  EXPECT_LE(store_->upkeep().Stats().segment_bytes, before - 5 * kFrameBytes);
  EXPECT_EQ(store_->upkeep().Stats().excess_bytes, 0u);
}

TEST_F(StoreRetainTest, OnceTheDiskQuotaIsPassedBytesGoUpToTheMargin) {
  OpenWithRuns({"r"});
  Fill("r", 0, 20);
  const uint64_t full = store_->upkeep().Stats().segment_bytes;
  // At the limit, nothing expires, however large the margin is.
  RetentionPolicy policy{
      .disk_bytes_max = full + store_->upkeep().Stats().index_bytes,
      .disk_margin_percent = 50,
      .run = {}};
  RetainAll(policy);
  EXPECT_EQ(store_->upkeep().Stats().segment_bytes, full);
  EXPECT_FALSE(store_->upkeep().Stats().is_making_room);
  // One frame above the limit, bytes expire until half of the limit is free.
  Fill("r", 20, 22);
  const auto step = store_->upkeep().Retain(policy);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_FALSE(step->is_done);
  EXPECT_TRUE(store_->upkeep().Stats().is_making_room);
  RetainAll(policy);
  const StoreStats stats = store_->upkeep().Stats();
  EXPECT_FALSE(stats.is_making_room);
  const uint64_t used = stats.segment_bytes + stats.index_bytes;
  EXPECT_LE(used, policy.disk_bytes_max / 2 + 100);
  EXPECT_GE(used, policy.disk_bytes_max / 2 - 3 * kFrameBytes);
  // Between these bounds, nothing expires.
  Fill("r", 22, 24);
  const uint64_t before = store_->upkeep().Stats().segment_bytes;
  RetainAll(policy);
  EXPECT_EQ(store_->upkeep().Stats().segment_bytes, before);
}

TEST_F(StoreRetainTest, PinnedRunsAreCounted) {
  OpenWithRuns({"r", "pinned"});
  Fill("r", 0, 1);
  Fill("pinned", 0, 3);
  EXPECT_EQ(store_->upkeep().Stats().pinned_run_count, 0u);
  ASSERT_TRUE(store_->runs().SetRetention("pinned", {true, {}}).ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(store_->upkeep().Stats().pinned_run_count, 1u);
    EXPECT_EQ(store_->upkeep().Stats().pinned_bytes, 3 * kTensorBytes);
    Drop();
    Reopen();
  }
}

TEST_F(StoreRetainTest, DiskQuotaThatPinnedRunsExceedIsTold) {
  OpenWithRuns({"r", "pinned"});
  for (int64_t token = 0; token < 6; ++token) {
    Fill("r", token, token + 1);
    Fill("pinned", token, token + 1);
  }
  ASSERT_TRUE(store_->runs().SetRetention("pinned", {true, {}}).ok());
  const uint64_t before = store_->upkeep().Stats().segment_bytes;
  RetainAll({.disk_bytes_max = 1, .run = {}});
  ExpectKept("pinned", 0, 6);
  // Everything has expired except the frame in the segment in use.
  EXPECT_EQ(store_->runs().GetRun("r")->counters.kept_bytes(), kTensorBytes);
  EXPECT_GT(store_->upkeep().Stats().excess_bytes, 6 * kTensorBytes);
  // The space was freed although every segment is still needed.
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 6u);
  EXPECT_LE(store_->upkeep().Stats().segment_bytes, before - 5 * 5 * 4096);
  Drop();
  Reopen();
  EXPECT_LE(store_->upkeep().Stats().segment_bytes, before - 5 * 5 * 4096);
  ExpectKept("pinned", 0, 6);
}

TEST_F(StoreRetainTest, WithoutHolesTheRoomComesWithTheFile) {
  env_.RefuseHoles();
  OpenWithRuns({"r", "s"});
  for (int64_t token = 0; token < 4; ++token) {
    Fill("r", token, token + 1);
    Fill("s", token, token + 1);
  }
  Fill("s", 4, 5);
  SetLimits("r", {.bytes_max = 1});
  RetainAll({});
  ExpectKept("r", 4, 4);
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 5u);
  SetLimits("s", {.token_count = 1});
  RetainAll({});
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 1u);
}

TEST_F(StoreRetainTest, WhatWasGivenUpStaysSoAfterACrash) {
  OpenWithRuns({"r"});
  Fill("r", 0, 7);
  const auto stale = read_->GetTensor(Tensor("r", 0).key);
  SetLimits("r", {.bytes_max = 3 * kTensorBytes});
  RetainAll({});
  for (int i = 0; i < 2; ++i) {
    Drop();
    Reopen();
    EXPECT_EQ(store_->runs().GetRun("r")->retention.limits.bytes_max,
              3 * kTensorBytes);
    ExpectKept("r", 4, 7);
    AlignedBuffer buffer;
    EXPECT_EQ(Reason(read_->ReadPart("r", stale->parts[0], buffer).status()),
              "TENSOR_EXPIRED");
    EXPECT_EQ(RetainAll({}), 1);
  }
  Fill("r", 7, 9);
  RetainAll({});
  ExpectKept("r", 6, 9);
}

TEST_F(StoreRetainTest, SegmentInUseIsSealedOnceItIsOldEnough) {
  options_.segment_bytes_max = uint64_t{1} << 30;
  OpenWithRuns({"r"});
  Fill("r", 0, 4);
  SetLimits("r", {.bytes_max = 1});
  RetainAll({});
  ExpectKept("r", 0, 4);
  env_.AdvanceClock(Upkeep::kSealAgeMinNs);
  RetainAll({});
  ExpectKept("r", 4, 4);
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 0u);
  Fill("r", 4, 5);
  ExpectKept("r", 4, 5);
}

TEST_F(StoreRetainTest, DeletedRunLeavesNoMarks) {
  OpenWithRuns({"r"});
  Fill("r", 0, 5);
  SetLimits("r", {.bytes_max = 1});
  RetainAll({});
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  EXPECT_EQ(store_->upkeep().Stats().segment_count, 0u);
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  next_chunk_ = 0;
  Fill("r", 0, 2);
  ExpectKept("r", 0, 2);
  Drop();
  Reopen();
  ExpectKept("r", 0, 2);
}

TEST_F(StoreRetainTest, StepsAreBounded) {
  options_.segment_bytes_max = uint64_t{16} << 20;
  OpenWithRuns({"r"});
  TestChunks chunks;
  for (int64_t token = 0; token < 1100; ++token) {
    chunks.Add(kStream, token, {MakeTensor("r", token, "op", 64)});
  }
  ASSERT_TRUE(Append(std::move(chunks)).ok());
  env_.AdvanceClock(Upkeep::kSealAgeMinNs);
  SetLimits("r", {.token_count = 10});
  // One step seals, five steps process up to 256 frames each, and the last one
  // finds nothing.
  EXPECT_EQ(RetainAll({}), 7);
  EXPECT_EQ(store_->runs().GetRun("r")->counters.kept_bytes(), 640u);
}

TEST_F(StoreRetainTest, FullDiskAsksForBytesOfEveryRun) {
  OpenWithRuns({"r"});
  Fill("r", 0, 5);
  RetainAll({.disk_free_min = uint64_t{1} << 62, .run = {}});
  // The segment in use is kept.
  ExpectKept("r", 4, 5);
  EXPECT_GT(store_->upkeep().Stats().excess_bytes, 0u);
}

TEST_F(StoreRetainTest, ReadersAndIngestGoOnMeanwhile) {
  OpenWithRuns({"r"});
  SetLimits("r", {.bytes_max = 3 * kTensorBytes});
  constexpr int64_t kCount = 60;
  std::atomic<int64_t> written = 0;
  std::thread writer([&] {
    for (int64_t token = 0; token < kCount; ++token) {
      EXPECT_TRUE(Append({Tensor("r", token)}).ok());
      written = token + 1;
    }
  });
  std::thread retainer([&] {
    while (written < kCount) EXPECT_TRUE(store_->upkeep().Retain({}).ok());
  });
  int read_count = 0;
  AlignedBuffer buffer;
  for (int64_t token = 0; written < kCount; token = (token + 7) % kCount) {
    const auto info = read_->GetTensor(Tensor("r", token).key);
    if (!info.ok()) continue;
    const auto bytes = read_->ReadPart("r", info->parts.at(0), buffer);
    ++read_count;
    if (!bytes.ok()) {
      ASSERT_EQ(Reason(bytes.status()), "TENSOR_EXPIRED") << bytes.status();
    }
  }
  writer.join();
  retainer.join();
  EXPECT_GT(read_count, 0);
  RetainAll({});
  ExpectStored(Tensor("r", kCount - 1));
  EXPECT_LE(store_->runs().GetRun("r")->counters.kept_bytes(),
            5 * kTensorBytes);
}

}  // namespace
}  // namespace msitd::storage
