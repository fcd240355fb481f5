// SPDX-License-Identifier: Apache-2.0
#include "storage/whole_index.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "storage/check/store_check.h"
#include "storage/rebuild/index_rebuild.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using msitd::testing::FaultEnv;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class WholeIndexTest : public StoreTest {
 protected:
  fs::path index() const { return options_.directory + "/index"; }

  // Creates a store that was closed with one run, and killed after two more
  // were created. Returns a tensor of each run.
  std::vector<TestTensor> Fill() {
    std::vector<TestTensor> out;
    const auto record = [&](const std::string& run) {
      ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
      out.push_back(MakeTensor(run, 0, "op", 512, out.size() + 1));
      ASSERT_TRUE(
          store_->log()
              .Append(TestChunks(kStream + out.size(), 0, {out.back()}).span())
              .ok());
    };
    Open();
    record("first");
    EXPECT_TRUE(store_->Close().ok());
    Drop();
    fs::remove_all(dir_ / "older");
    fs::copy(index(), dir_ / "older", fs::copy_options::recursive);
    Open();
    record("second");
    record("third");
    Drop();
    return out;
  }

  // Closes the store, and restores an older manifest next to the newer tables.
  void TakeOlderManifest() {
    Open();
    ASSERT_TRUE(store_->Close().ok());
    Drop();
    for (const auto& entry : fs::directory_iterator(index())) {
      const std::string name = entry.path().filename().string();
      if (name == "CURRENT" || name.starts_with("MANIFEST")) {
        fs::remove(entry.path());
      }
    }
    fs::copy(dir_ / "older", index(),
             fs::copy_options::recursive | fs::copy_options::skip_existing);
  }

  // Returns the log of the index that contains entries.
  fs::path Log() const {
    fs::path log;
    uint64_t size = 0;
    for (const auto& entry : fs::directory_iterator(index())) {
      if (entry.path().extension() != ".log" || entry.file_size() <= size) {
        continue;
      }
      log = entry.path();
      size = entry.file_size();
    }
    return log;
  }

  std::map<std::string, uint64_t> Files() const {
    std::map<std::string, uint64_t> out;
    for (const auto& entry : fs::directory_iterator(index())) {
      out[entry.path().filename().string()] = entry.file_size();
    }
    return out;
  }

  void ExpectRefused() {
    const auto before = Files();
    const absl::Status status = TryOpen();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("lost its last"));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("msitd-inspect rebuild --data-dir"));
    EXPECT_EQ(Files(), before);
    auto view = StoreView::Open(options_.directory, Env::Posix());
    ASSERT_TRUE(view.ok()) << view.status();
    std::vector<std::string> problems;
    const auto report = CheckStore(*view, [&](const StoreProblem& problem) {
      problems.push_back(problem.what);
    });
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(problems, ::testing::Contains(HasSubstr("lost its last")));
  }

  void RebuildAndRead(const std::vector<TestTensor>& tensors) {
    const auto report =
        RebuildIndex({options_.directory, ""}, Env::Posix(),
                     [](const StoreProblem& problem) { (void)problem; });
    ASSERT_TRUE(report.ok()) << report.status();
    Open();
    for (const TestTensor& tensor : tensors) ExpectStored(tensor);
  }
};

TEST_F(WholeIndexTest, IndexThatLostItsLogIsRefused) {
  const std::vector<TestTensor> tensors = Fill();
  fs::resize_file(Log(), 0);
  ExpectRefused();
  RebuildAndRead(tensors);
}

TEST_F(WholeIndexTest, CutLogIsRefusedUnlessItHasAllRuns) {
  const std::vector<TestTensor> tensors = Fill();
  const fs::path whole = dir_ / "whole";
  fs::copy(options_.directory, whole, fs::copy_options::recursive);
  const uint64_t size = fs::file_size(Log());
  constexpr uint64_t kCuts = 12;
  int refused = 0;
  int opened = 0;
  for (uint64_t cut = 0; cut <= kCuts; ++cut) {
    Drop();
    fs::remove_all(options_.directory);
    fs::copy(whole, options_.directory, fs::copy_options::recursive);
    fs::resize_file(Log(), size * cut / kCuts);
    const absl::Status status = TryOpen();
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      ++refused;
      continue;
    }
    ++opened;
    for (const TestTensor& tensor : tensors) ExpectStored(tensor);
  }
  EXPECT_GT(refused, 2);
  EXPECT_GT(opened, 0);
}

TEST_F(WholeIndexTest, OlderCopyOfTheIndexIsRefused) {
  const std::vector<TestTensor> tensors = Fill();
  fs::remove_all(index());
  fs::copy(dir_ / "older", index(), fs::copy_options::recursive);
  ExpectRefused();
  RebuildAndRead(tensors);
}

TEST_F(WholeIndexTest, OlderManifestIsRefused) {
  const std::vector<TestTensor> tensors = Fill();
  TakeOlderManifest();
  ExpectRefused();
  RebuildAndRead(tensors);
}

// RocksDB would remove tables that the older manifest does not name.
TEST_F(WholeIndexTest, OlderManifestThatCannotBeReadIsNotOpenedForWriting) {
  const std::vector<TestTensor> tensors = Fill();
  TakeOlderManifest();
  const auto before = Files();
  int failed = 0;
  absl::Status status;
  for (uint64_t failing = 1; failing < 200; ++failing) {
    FaultEnv env(Env::Posix());
    env.CountIndex();
    env.FailAt(failing, absl::UnavailableError("Input/output error"), false);
    status = TryOpen(env);
    ASSERT_FALSE(status.ok());
    ASSERT_EQ(Files(), before) << failing;
    failed += absl::IsDataLoss(status) ? 0 : 1;
    if (env.operation_count() < failing) break;
  }
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_GT(failed, 5);
  RebuildAndRead(tensors);
}

// The killed start left an index without some of its tables.
TEST_F(WholeIndexTest, FirstStartThatWasKilledIsCompleted) {
  int half_made = 0;
  for (uint64_t failing = 1; failing < 200; ++failing) {
    Drop();
    fs::remove_all(options_.directory);
    FaultEnv env(Env::Posix());
    env.CountIndex();
    env.FailAt(failing, absl::UnavailableError("killed"), true);
    if (TryOpen(env).ok() && env.operation_count() < failing) break;
    Drop();
    half_made += IndexDb::LacksTables(index()).value_or(false) ? 1 : 0;
    const absl::Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << failing << ": " << status;
    EXPECT_FALSE(*IndexDb::LacksTables(index()));
  }
  EXPECT_GT(half_made, 5);
}

TEST_F(WholeIndexTest, IndexWithoutItsNewestTableIsRefused) {
  Fill();
  Open();
  ASSERT_TRUE(store_->Close().ok());
  Drop();
  std::set<fs::path> tables;
  for (const auto& entry : fs::directory_iterator(index())) {
    if (entry.path().extension() == ".sst") tables.insert(entry.path());
  }
  ASSERT_FALSE(tables.empty());
  fs::remove(*tables.rbegin());
  const absl::Status status = TryOpen();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("msitd-inspect rebuild --data-dir"));
}

// The process is still running, and reopens the index itself.
TEST_F(WholeIndexTest, IndexThatLostItsLogIsNotOpenedAnew) {
  const std::vector<TestTensor> tensors = Fill();
  FaultEnv env(Env::Posix());
  ASSERT_TRUE(TryOpen(env).ok());
  ASSERT_TRUE(store_->runs().CreateRun({"fourth", 0, {}}).ok());
  const TestTensor last = MakeTensor("fourth", 0, "op", 512, 9);
  ASSERT_TRUE(Append({last}).ok());
  env.CountIndex();
  env.FailAt(1, absl::UnavailableError("too many open files"), true);
  EXPECT_FALSE(store_->runs().CreateRun({"more", 0, {}}).ok());
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(store_->log().Probe().ok());
  fs::resize_file(Log(), 0);
  env.StopFailing();
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = store_->log().Probe();
    EXPECT_EQ(Reason(status), "STORAGE_FAILED") << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("lost its last"));
    EXPECT_FALSE(store_->runs().CreateRun({"more", 0, {}}).ok());
  }
  ExpectRefused();
  RebuildAndRead(tensors);
  ExpectStored(last);
}

class RebuiltWithoutNewestTest : public WholeIndexTest {
 protected:
  // The index is lost, and `lose` damages the last segment with frames. The
  // next segment, which has no frames, records the length of that segment.
  void Run(const std::function<void(const fs::path&)>& lose) {
    OpenWithRun("r");
    const TestTensor first = MakeTensor("r", 0, "op", 512);
    ASSERT_TRUE(Append({first}).ok());
    Open();
    ASSERT_TRUE(Append({MakeTensor("r", 1, "op", 512)}).ok());
    Open();
    ASSERT_TRUE(store_->log().Probe().ok());
    Drop();
    ASSERT_EQ(fs::file_size(SegmentPath(3)), 4096u);
    lose(SegmentPath(2));
    fs::remove_all(index());
    ASSERT_TRUE(absl::IsDataLoss(TryOpen()));
    RebuildAndRead({first});
    const TestTensor next = MakeTensor("r", 2, "op", 512);
    ASSERT_TRUE(Append(TestChunks(kStream + 1, 0, {next})).ok());
    ExpectStored(next);
    Open();
    ExpectStored(next);
    EXPECT_FALSE(fs::exists(SegmentPath(3)));
    EXPECT_TRUE(fs::exists(SegmentPath(4)));
    ASSERT_TRUE(store_->Close().ok());
    Drop();
    RebuildAndRead({first, next});
  }
};

TEST_F(RebuiltWithoutNewestTest, SegmentOfZeros) {
  Run([](const fs::path& path) {
    const uint64_t size = fs::file_size(path);
    fs::resize_file(path, 0);
    fs::resize_file(path, size);
  });
}

TEST_F(RebuiltWithoutNewestTest, SegmentThatWasCut) {
  Run([](const fs::path& path) { fs::resize_file(path, 4096); });
}

TEST_F(RebuiltWithoutNewestTest, SegmentThatIsGone) {
  Run([](const fs::path& path) { fs::remove(path); });
}

// No run is lost, but other durable data that is not in frames may be.
TEST_F(WholeIndexTest, AcknowledgedFramesAfterTheNewestSegmentAreRefused) {
  OpenWithRun("r");
  ASSERT_TRUE(Append({MakeTensor("r", 0, "op", 512)}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Open();
  ASSERT_TRUE(Append({MakeTensor("r", 1, "op", 512)}).ok());
  ASSERT_TRUE(Append({MakeTensor("r", 2, "op", 512)}).ok());
  Drop();
  fs::resize_file(Log(), 0);
  ExpectRefused();
}

TEST_F(WholeIndexTest, SegmentsThatAreNotNeededYetMayBeUnreadable) {
  Fill();
  uint64_t count = 0;
  const auto check = [&](uint64_t failing) {
    const auto opened =
        ChunkIndex::Open({.directory = index(), .read_only = true});
    EXPECT_TRUE(opened.ok()) << opened.status();
    const auto files =
        ListSegments(Env::Posix(), options_.directory + "/segments");
    EXPECT_EQ(files->size(), 2u);
    FaultEnv env(Env::Posix());
    env.FailAt(failing, absl::UnavailableError("Input/output error"), false);
    const absl::Status status = CheckIndexIsWhole(**opened, env, *files);
    count = env.operation_count();
    return status;
  };
  EXPECT_TRUE(check(UINT64_MAX).ok());
  const uint64_t last = count;
  for (uint64_t failing = 1; failing <= last; ++failing) {
    EXPECT_TRUE(absl::IsUnavailable(check(failing))) << failing;
  }
  // The index does not have the frames of this segment yet, so they will be
  // read from the segment.
  fs::resize_file(SegmentPath(2), 0);
  EXPECT_TRUE(check(UINT64_MAX).ok());
  EXPECT_TRUE(check(count).ok());
  EXPECT_TRUE(absl::IsUnavailable(check(1)));
}

// The segment becomes durable before the index names it.
TEST_F(WholeIndexTest, OneAppendThatNobodyWasToldOfIsNoProof) {
  OpenWithRun("r");
  ASSERT_TRUE(Append({MakeTensor("r", 0, "op", 512)}).ok());
  ASSERT_TRUE(store_->Close().ok());
  Open();
  const TestTensor tensor = MakeTensor("r", 1, "op", 512);
  ASSERT_TRUE(Append({tensor}).ok());
  Drop();
  fs::resize_file(Log(), 0);
  Open();
  ExpectStored(tensor);
}

}  // namespace
}  // namespace msitd::storage
