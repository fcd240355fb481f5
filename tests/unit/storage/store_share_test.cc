// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "storage/check/store_check.h"
#include "storage/segment/segment_reader.h"
#include "storage/upkeep/copy_table.h"
#include "storage/upkeep/sharer.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of the bytes that Upkeep::Share frees. Sharing has no visible side
// effects.
namespace msitd::storage {
namespace {

using ::msitd::testing::FaultEnv;
using ::testing::IsEmpty;

constexpr uint64_t kTensorBytes = 10 * 4096;
// A frame of one such tensor has a page for the head and ten for the payload.
constexpr uint64_t kFrameBytes = 11 * 4096;
constexpr uint32_t kWeights = 9999;

class StoreShareTest : public StoreTest {
 protected:
  // A segment is full after two frames.
  StoreShareTest() { options_.segment_bytes_max = 2 * kFrameBytes; }

  void Reopen() { ASSERT_TRUE(TryOpen(env_).ok()); }

  // Reopens the store, so that no existing segment accepts more frames.
  void Settle() {
    if (store_ != nullptr) {
      ASSERT_TRUE(store_->Close().ok());
    }
    Reopen();
  }

  void OpenWithRuns(const std::vector<std::string>& runs) {
    Reopen();
    for (const std::string& run : runs) {
      ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
    }
  }

  // Returns a tensor with the same bytes at every token.
  TestTensor Weights(const std::string& run, int64_t token) {
    return MakeTensor(run, token, "weights", kTensorBytes, kWeights);
  }
  TestTensor Other(const std::string& run, int64_t token) {
    return MakeTensor(run, token, "other", kTensorBytes,
                      static_cast<uint32_t>(1 + token));
  }

  void AppendWeights(const std::string& run, int64_t first, int64_t last) {
    for (int64_t token = first; token < last; ++token) {
      ASSERT_TRUE(Append({Weights(run, token)}).ok());
    }
  }

  // Shares until there is nothing left to do. Returns the number of freed
  // bytes.
  uint64_t ShareAll() {
    uint64_t bytes = 0;
    for (int steps = 0; steps < 1000; ++steps) {
      const auto step = store_->upkeep().Share();
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) return bytes;
      bytes += step->shared_bytes;
      if (step->is_done) return bytes;
    }
    ADD_FAILURE() << "sharing does not end";
    return bytes;
  }

  void RetainAll(const RetentionPolicy& policy) {
    for (int steps = 0; steps < 1000; ++steps) {
      const auto step = store_->upkeep().Retain(policy);
      ASSERT_TRUE(step.ok()) << step.status();
      if (step->is_done) return;
    }
    FAIL() << "retention does not end";
  }

  void ExpectWeights(const std::string& run, int64_t first, int64_t last) {
    for (int64_t token = first; token < last; ++token) {
      SCOPED_TRACE(fmt::format("run {} token {}", run, token));
      ExpectStored(Weights(run, token));
    }
  }

  void ExpectExpired(const TensorKey& key) {
    const auto info = read_->GetTensor(key);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_FALSE(info->has_bytes);
    EXPECT_EQ(Reason(Read(key).status()), "TENSOR_EXPIRED");
  }

  uint64_t DiskBytes(int number) const {
    struct stat info {};
    EXPECT_EQ(::stat(SegmentPath(number).c_str(), &info), 0);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }

  // Returns the problems that `msitd-inspect verify` finds.
  std::vector<std::string> Problems() {
    std::vector<std::string> problems;
    auto view = StoreView::Open(options_.directory, Env::Posix());
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return problems;
    const auto report = CheckStore(*view, [&problems](
                                              const StoreProblem& problem) {
      problems.push_back(fmt::format("{} {}", problem.offset, problem.what));
    });
    EXPECT_TRUE(report.ok()) << report.status();
    if (report.ok()) report_ = *report;
    return problems;
  }

  FaultEnv env_{Env::Posix()};
  StoreCheckReport report_;
};

TEST_F(StoreShareTest, EqualTensorsOfARunTakeTheRoomOfOne) {
  OpenWithRuns({"r"});
  AppendWeights("r", 0, 6);
  TestTensor of_rank_1 = Weights("r", 0);
  of_rank_1.key.rank = 1;
  ASSERT_TRUE(Append(TestChunks(9, 0, {of_rank_1})).ok());
  ASSERT_TRUE(Append({Other("r", 7)}).ok());
  Settle();
  const uint64_t before = store_->upkeep().Stats().segment_bytes;
  const uint64_t disk_before = DiskBytes(1);
  EXPECT_EQ(ShareAll(), 6 * kTensorBytes);
  EXPECT_EQ(store_->upkeep().Stats().shared_bytes, 6 * kTensorBytes);
  EXPECT_EQ(store_->upkeep().Stats().segment_bytes, before - 6 * kTensorBytes);
  EXPECT_LE(DiskBytes(1), disk_before - 2 * kTensorBytes);
  for (int i = 0; i < 2; ++i) {
    ExpectWeights("r", 0, 6);
    ExpectStored(of_rank_1);
    ExpectStored(Other("r", 7));
    EXPECT_EQ(store_->runs().GetRun("r")->counters.kept_bytes(),
              8 * kTensorBytes);
    EXPECT_EQ(ShareAll(), 0u);
    EXPECT_THAT(Problems(), IsEmpty());
    EXPECT_EQ(report_.shared_count, 6u);
    Drop();
    Reopen();
  }
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreShareTest, BytesMoveForwardAsLaterOnesCome) {
  OpenWithRuns({"r"});
  for (int64_t token = 0; token < 8; token += 2) {
    AppendWeights("r", token, token + 2);
    Settle();
    ShareAll();
    ExpectWeights("r", 0, token + 2);
    // Only the last copy is kept.
    EXPECT_EQ(store_->upkeep().Stats().segment_bytes,
              (token / 2 + 1) * 3 * 4096 + kTensorBytes);
  }
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreShareTest, SegmentInUseIsLeftAlone) {
  OpenWithRuns({"r"});
  AppendWeights("r", 0, 3);
  EXPECT_EQ(ShareAll(), kTensorBytes);
  AppendWeights("r", 3, 5);
  EXPECT_EQ(ShareAll(), 2 * kTensorBytes);
  ExpectWeights("r", 0, 5);
}

TEST_F(StoreShareTest, RunsDoNotShare) {
  OpenWithRuns({"r", "s"});
  for (int64_t token = 0; token < 2; ++token) {
    AppendWeights("r", token, token + 1);
    AppendWeights("s", token, token + 1);
  }
  Settle();
  EXPECT_EQ(ShareAll(), 2 * kTensorBytes);
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ExpectWeights("s", 0, 2);
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  next_chunk_ = 0;
  AppendWeights("r", 0, 2);
  Settle();
  EXPECT_EQ(ShareAll(), kTensorBytes);
  ExpectWeights("r", 0, 2);
  ASSERT_TRUE(store_->runs().DeleteRun("s").ok());
  ExpectWeights("r", 0, 2);
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreShareTest, EqualHashesOfOtherBytesShareNothing) {
  OpenWithRuns({"r"});
  AppendWeights("r", 0, 1);
  TestTensor liar = Other("r", 1);
  TestChunks forged(kStream, next_chunk_++, {liar});
  forged.span()[0].records()[0].hash = chunk::HashBytes(Weights("r", 0).bytes);
  ASSERT_TRUE(Append(std::move(forged)).ok());
  AppendWeights("r", 2, 4);
  Settle();
  EXPECT_EQ(ShareAll(), 2 * kTensorBytes);
  EXPECT_EQ(store_->upkeep().Stats().unequal_count, 1u);
  ExpectWeights("r", 0, 1);
  ExpectWeights("r", 2, 4);
  // The place has the tensor's own bytes.
  const auto info = read_->GetTensor(liar.key);
  SegmentReader reader(Env::Posix(), options_.directory + "/segments", false);
  AlignedBuffer buffer;
  const auto bytes =
      reader.ReadUnchecked(SegmentId{info->parts[0].place.file},
                           info->parts[0].place.offset, kTensorBytes, buffer);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_TRUE(std::equal(bytes->begin(), bytes->end(), liar.bytes.begin()));
}

TEST_F(StoreShareTest, PartsAndNeighboursInAFrameKeepWhatIsTheirs) {
  options_.segment_bytes_max = uint64_t{64} << 10;
  OpenWithRuns({"r"});
  // Parts that begin and end inside pages, between parts that are not repeated,
  // and one part that is too short.
  constexpr uint64_t kOddBytes = 5 * 4096 + 700;
  std::vector<TestTensor> all;
  for (int64_t token = 0; token < 4; ++token) {
    const auto seed = static_cast<uint32_t>(100 + token);
    const std::vector<TestTensor> records = {
        MakeTensor("r", token, "a", 3000, seed),
        MakeTensor("r", token, "b", kOddBytes, 1),
        MakeTensor("r", token, "c", kOddBytes, 2),
        MakeTensor("r", token, "d", 5000, seed),
        MakeTensor("r", token, "e", kSharedBytesMin - 1, 3)};
    ASSERT_TRUE(Append(records).ok());
    all.insert(all.end(), records.begin(), records.end());
  }
  Settle();
  // Together, the two parts also free the page that they share.
  EXPECT_EQ(ShareAll(), 3 * 10 * 4096);
  for (const TestTensor& tensor : all) ExpectStored(tensor);
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreShareTest, PartsOfOneTensorShareToo) {
  options_.segment_bytes_max = uint64_t{16} << 20;
  OpenWithRuns({"r"});
  TestTensor tensor = MakeTensor("r", 0, "large", 3 * kPartBytes + 50'000);
  std::copy_n(tensor.bytes.begin(), kPartBytes,
              tensor.bytes.begin() + 2 * kPartBytes);
  for (uint64_t part = 0; part < 4; ++part) {
    tensor.part = part;
    ASSERT_TRUE(Append({tensor}).ok());
  }
  Settle();
  EXPECT_EQ(ShareAll(), kPartBytes);
  ExpectStored(tensor);
}

TEST_F(StoreShareTest, RetentionGoesOnAsWithoutSharing) {
  OpenWithRuns({"r"});
  for (int64_t token = 0; token < 8; ++token) {
    ASSERT_TRUE(Append({Weights("r", token)}).ok());
    ASSERT_TRUE(Append({Other("r", token)}).ok());
  }
  Settle();
  EXPECT_EQ(ShareAll(), 7 * kTensorBytes);
  RetainAll({.run = {.token_count = 3}});
  const auto expect_last_three = [this] {
    for (int64_t token = 0; token < 5; ++token) {
      ExpectExpired(Weights("r", token).key);
      ExpectExpired(Other("r", token).key);
    }
    ExpectWeights("r", 5, 8);
    for (int64_t token = 5; token < 8; ++token) {
      ExpectStored(Other("r", token));
    }
    const RunCounters counters = store_->runs().GetRun("r")->counters;
    EXPECT_EQ(counters.expired_bytes, 10 * kTensorBytes);
    EXPECT_EQ(counters.kept_bytes(), 6 * kTensorBytes);
    EXPECT_EQ(store_->upkeep().Stats().segment_count, 3u);
  };
  expect_last_three();
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
  Reopen();
  expect_last_three();
  // The shared bytes expire with the last tensor, and can be recorded again.
  RetainAll({.run = {.bytes_max = 1}});
  ExpectExpired(Weights("r", 7).key);
  AppendWeights("r", 8, 10);
  Settle();
  EXPECT_EQ(ShareAll(), kTensorBytes);
  ExpectWeights("r", 8, 10);
  ExpectExpired(Weights("r", 7).key);
}

TEST_F(StoreShareTest, BytesThatAreGoneAreNotSharedWith) {
  OpenWithRuns({"r"});
  AppendWeights("r", 0, 4);
  Settle();
  RetainAll({.run = {.bytes_max = 2 * kTensorBytes}});
  EXPECT_EQ(ShareAll(), kTensorBytes);
  ExpectExpired(Weights("r", 1).key);
  ExpectWeights("r", 2, 4);
}

TEST_F(StoreShareTest, ReaderThatKnowsAnOldPlaceFindsTheBytes) {
  OpenWithRuns({"r"});
  AppendWeights("r", 0, 2);
  const auto stale = read_->GetTensor(Weights("r", 0).key);
  ASSERT_TRUE(stale.ok());
  Settle();
  ShareAll();
  AlignedBuffer buffer;
  const auto read = [&] {
    return read_->ReadPart("r", stale->parts[0], buffer);
  };
  ASSERT_TRUE(read().ok()) << read().status();
  AppendWeights("r", 2, 4);
  Settle();
  ShareAll();
  ASSERT_TRUE(read().ok()) << read().status();
  const auto bytes = read();
  EXPECT_TRUE(
      std::equal(bytes->begin(), bytes->end(), Weights("r", 0).bytes.begin()));
  RunReader& run = **read_->Open("r");
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  EXPECT_EQ(Reason(run.ReadPart(stale->parts[0], buffer).status()),
            "TENSOR_EXPIRED");
}

TEST_F(StoreShareTest, SharedPartIsReadOnceAlsoAfterARestart) {
  OpenWithRuns({"r", "alone"});
  AppendWeights("r", 0, 2);
  AppendWeights("alone", 0, 1);
  Settle();
  ShareAll();
  for (int i = 0; i < 2; ++i) {
    const auto first = read_->GetTensor(Weights("r", 0).key);
    ASSERT_TRUE(first.ok()) << first.status();
    ExpectWeights("r", 0, 2);  // Opens the files.
    ExpectWeights("alone", 0, 1);
    env_.FailAt(0, {}, false);
    AlignedBuffer buffer;
    ASSERT_TRUE(read_->ReadPart("r", first->parts[0], buffer).ok());
    EXPECT_EQ(env_.operation_count(), 1u);
    Drop();
    Reopen();
  }
}

TEST_F(StoreShareTest, PlaceOfADeletedRunInAFileThatStaysIsExpired) {
  OpenWithRuns({"r", "s"});
  AppendWeights("r", 0, 1);
  AppendWeights("s", 0, 1);
  AppendWeights("r", 1, 2);
  const auto stale = read_->GetTensor(Weights("r", 0).key);
  Settle();
  EXPECT_EQ(ShareAll(), kTensorBytes);
  RunReader& run = **read_->Open("r");
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  AlignedBuffer buffer;
  EXPECT_EQ(Reason(run.ReadPart(stale->parts[0], buffer).status()),
            "TENSOR_EXPIRED");
  ExpectWeights("s", 0, 1);
}

TEST_F(StoreShareTest, BytesThatRotWhereTheyAreSharedAreALossOfAll) {
  OpenWithRuns({"r"});
  AppendWeights("r", 0, 2);
  Settle();
  ShareAll();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  std::FILE* file = std::fopen(SegmentPath(1).c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  std::fseek(file, 4096 + kFrameBytes + 2 * 4096, SEEK_SET);
  std::fputs("rot", file);
  std::fclose(file);
  EXPECT_EQ(Problems().size(), 2u);
  Reopen();
  for (int64_t token = 0; token < 2; ++token) {
    EXPECT_EQ(Reason(Read(Weights("r", token).key).status()), "FRAME_CORRUPT");
  }
}

TEST_F(StoreShareTest, WithoutHolesNothingIsLookedFor) {
  env_.RefuseHoles();
  OpenWithRuns({"r"});
  AppendWeights("r", 0, 4);
  Settle();
  EXPECT_EQ(ShareAll(), 0u);
  EXPECT_EQ(ShareAll(), 0u);
  ExpectWeights("r", 0, 4);
  Drop();
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(StoreShareTest, StepsAreBounded) {
  options_.segment_bytes_max = uint64_t{64} << 20;
  OpenWithRuns({"r"});
  TestChunks chunks;
  for (int64_t token = 0; token < 2500; ++token) {
    chunks.Add(kStream, token, {MakeTensor("r", token, "op", 64)});
  }
  ASSERT_TRUE(Append(std::move(chunks)).ok());
  Settle();
  int steps = 1;
  while (!store_->upkeep().Share()->is_done) ++steps;
  EXPECT_EQ(steps, 3);
}

TEST_F(StoreShareTest, ReadersIngestAndInspectionGoOnMeanwhile) {
  OpenWithRuns({"r"});
  constexpr int64_t kCount = 80;
  std::atomic<int64_t> written = 0;
  std::thread writer([&] {
    for (int64_t token = 0; token < kCount; ++token) {
      EXPECT_TRUE(Append({Weights("r", token)}).ok());
      written = token + 1;
    }
  });
  std::thread sharer([&] {
    while (written < kCount) EXPECT_TRUE(store_->upkeep().Share().ok());
  });
  std::thread inspector([&] {
    while (written < kCount) EXPECT_THAT(Problems(), IsEmpty());
  });
  int read_count = 0;
  for (int64_t token = 0; written < kCount; token = (token + 7) % kCount) {
    if (token >= written) continue;
    ExpectStored(Weights("r", token));
    ++read_count;
  }
  writer.join();
  sharer.join();
  inspector.join();
  EXPECT_GT(read_count, 0);
  Settle();
  ShareAll();
  ExpectWeights("r", 0, kCount);
  EXPECT_LE(store_->upkeep().Stats().segment_bytes,
            kCount / 2 * 3 * 4096 + kTensorBytes);
}

TEST(CopyTableTest, ForgetsWhatCameFirstAndNeverGrowsOverItsBound) {
  CopyTable table(8);
  const auto bytes = [](uint64_t i) {
    return SharedBytes{RunId{1}, {i, i}, 20'000};
  };
  for (uint64_t i = 0; i < 100; ++i) {
    table.Put(bytes(i), {1, i});
    // Entries are replaced instead of added.
    table.Put(bytes(i), {2, i});
    EXPECT_LE(table.size(), 8u);
    for (uint64_t last = i - std::min<uint64_t>(i, 3); last <= i; ++last) {
      EXPECT_EQ(table.Find(bytes(last)), (BytePlace{2, last}));
    }
  }
  EXPECT_EQ(table.Find(bytes(0)), std::nullopt);
  EXPECT_EQ(table.Find({RunId{2}, {99, 99}, 20'000}), std::nullopt);
  EXPECT_EQ(table.Find({RunId{1}, {99, 99}, 20'001}), std::nullopt);
  table.Clear();
  EXPECT_EQ(table.Find(bytes(99)), std::nullopt);
}

}  // namespace
}  // namespace msitd::storage
