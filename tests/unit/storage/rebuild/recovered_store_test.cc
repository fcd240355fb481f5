// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/recovered_store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include "protos/base/resource_name.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using msitd::testing::FaultEnv;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace fs = std::filesystem;

class RecoveredStoreTest : public StoreTest {
 protected:
  void SetUp() override { fs::create_directory(scratch()); }

  std::string scratch() const { return dir_ / "scratch"; }
  fs::path index() const { return options_.directory + "/index"; }

  // Creates a sealed run with a comparison and an attachment, and an open run.
  void Fill() {
    OpenWithRun("golden");
    ASSERT_TRUE(store_->runs().CreateRun({"target", 0, {}}).ok());
    for (int token = 0; token < 3; ++token) {
      Record("golden", token);
      Record("target", token);
    }
    ASSERT_TRUE(store_->runs().SealRun("golden").ok());
    const auto id = store_->comparisons().CreateComparison(
        "document", std::vector<std::string>{"golden", "target"});
    ASSERT_TRUE(id.ok()) << id.status();
    comparison_ = *id;
    Attach();
    ASSERT_TRUE(store_->Close().ok());
    Drop();
  }

  // The writer must not outlive the store.
  void Attach() {
    auto writer =
        store_->attachments().Begin({"golden", "notes", "text/plain"});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append("bytes").ok());
    ASSERT_TRUE((*writer)->Commit().ok());
  }

  void Record(const std::string& run, int token) {
    std::vector<TestTensor> records;
    for (int op = 0; op < 4; ++op) {
      records.push_back(MakeTensor(run, token, fmt::format("op{}", op),
                                   op == 0 ? 100'000 : 50,
                                   static_cast<uint32_t>(7 * token + op)));
    }
    tensors_.insert(tensors_.end(), records.begin(), records.end());
    const uint64_t stream = run == "golden" ? 1 : 2;
    ASSERT_TRUE(
        Append(TestChunks(stream, static_cast<uint64_t>(token), records)).ok());
  }

  absl::Status TryRecover(Env& env = Env::Posix()) {
    Drop();
    auto recovered = OpenRecovered(options_, scratch(), env);
    if (!recovered.ok()) return recovered.status();
    store_ = std::move(recovered->store);
    report_ = std::move(recovered->report);
    read_.emplace(store_->readers());
    return absl::OkStatus();
  }

  void ExpectAllTensors() {
    for (const TestTensor& tensor : tensors_) {
      SCOPED_TRACE(FormatTensorName(tensor.key));
      ExpectStored(tensor);
    }
  }

  // Returns the permissions, the modification time and the bytes of every file
  // and directory of the store.
  std::map<std::string, std::string> Snapshot() const {
    std::map<std::string, std::string> out;
    for (const auto& entry :
         fs::recursive_directory_iterator(options_.directory)) {
      struct stat info {};
      EXPECT_EQ(::lstat(entry.path().c_str(), &info), 0);
      std::ifstream file;
      if (S_ISREG(info.st_mode)) file.open(entry.path(), std::ios::binary);
      out[entry.path().string()] =
          fmt::format("{:o} {}.{} ", info.st_mode, info.st_mtim.tv_sec,
                      info.st_mtim.tv_nsec) +
          std::string(std::istreambuf_iterator<char>(file), {});
    }
    return out;
  }

  std::vector<std::string> Leftovers() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(scratch())) {
      out.push_back(entry.path().string());
    }
    return out;
  }

  uint64_t comparison_ = 0;
  std::vector<TestTensor> tensors_;
  RebuildReport report_;
};

TEST_F(RecoveredStoreTest, AnyDamagedIndexIsReadAndNothingIsChanged) {
  const std::pair<std::string, std::function<void(const fs::path&)>> damages[] =
      {
          {"none", [](const fs::path&) {}},
          {"no CURRENT",
           [](const fs::path& index) { fs::remove(index / "CURRENT"); }},
          {"empty manifest",
           [](const fs::path& index) {
             for (const auto& file : fs::directory_iterator(index)) {
               if (file.path().filename().string().starts_with("MANIFEST")) {
                 fs::resize_file(file.path(), 0);
               }
             }
           }},
          {"no index", [](const fs::path& index) { fs::remove_all(index); }},
      };
  Fill();
  fs::copy(index(), dir_ / "copy", fs::copy_options::recursive);
  for (const auto& [name, damage] : damages) {
    SCOPED_TRACE(name);
    fs::remove_all(index());
    fs::copy(dir_ / "copy", index(), fs::copy_options::recursive);
    damage(index());
    const auto before = Snapshot();
    const absl::Status status = TryRecover();
    ASSERT_TRUE(status.ok()) << status;
    if (name == "none") {
      EXPECT_THAT(report_.damage, IsEmpty());
    }
    ExpectAllTensors();
    if (name != "no index") {
      EXPECT_EQ(store_->comparisons().GetComparison(comparison_).value_or(""),
                "document");
      EXPECT_TRUE(store_->attachments().GetAttachment("golden", "notes").ok());
      EXPECT_TRUE(store_->runs().GetRun("golden")->sealed);
    }
    EXPECT_TRUE(store_->Close().ok());
    Drop();
    EXPECT_TRUE(Snapshot() == before);
    EXPECT_THAT(Leftovers(), IsEmpty());
  }
}

TEST_F(RecoveredStoreTest, AllThatWritesIsRefusedButComparisons) {
  Fill();
  fs::remove(index() / "CURRENT");
  const auto before = Snapshot();
  ASSERT_TRUE(TryRecover().ok());
  const auto is_refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kUnavailable &&
           Reason(status) == "STORAGE_FAILED" &&
           status.message().find("--recover") != std::string_view::npos;
  };
  Runs& runs = store_->runs();
  EXPECT_TRUE(is_refused(runs.CreateRun({"new", 0, {}}).status()));
  EXPECT_TRUE(is_refused(runs.SealRun("target").status()));
  EXPECT_TRUE(is_refused(runs.DeleteRun("target")));
  EXPECT_TRUE(is_refused(runs.SetWorldSize("target", 2).status()));
  EXPECT_TRUE(is_refused(runs.SetJob("target", "j").status()));
  EXPECT_TRUE(is_refused(runs.SetRetention("target", {}).status()));
  EXPECT_TRUE(is_refused(runs.EndRestore("target").status()));
  EXPECT_TRUE(is_refused(runs.SetCapturePolicy("target", "").status()));
  EXPECT_TRUE(is_refused(runs.SetContinuations("target", 0, {}, false)));
  EXPECT_TRUE(is_refused(
      Append(TestChunks(2, 3, {MakeTensor("target", 3, "op", 5, 1)}))));
  EXPECT_TRUE(is_refused(store_->log().Probe()));
  EXPECT_TRUE(
      is_refused(store_->log().CommittedChunkCount("target", 0, 2).status()));
  EXPECT_TRUE(
      is_refused(store_->log().HasChunksOfOthers("target", 0, 9).status()));
  EXPECT_TRUE(
      is_refused(store_->log().ReportCoverage("target", 0, 2, {}).status()));
  EXPECT_TRUE(is_refused(
      store_->attachments().Begin({"golden", "a", "text/plain"}).status()));
  EXPECT_TRUE(
      is_refused(store_->attachments().DeleteAttachment("golden", "notes")));
  Upkeep& upkeep = store_->upkeep();
  EXPECT_TRUE(upkeep.Retain(RetentionPolicy())->is_done);
  EXPECT_TRUE(upkeep.Share()->is_done);
  EXPECT_TRUE(*upkeep.Tidy());
  EXPECT_TRUE(upkeep.Verify({.bytes_max = 1})->is_done);
  EXPECT_THAT(upkeep.Stats().refusal, HasSubstr("for reading only"));
  EXPECT_TRUE(upkeep.Stats().is_read_only);
  EXPECT_EQ(upkeep.Stats().run_count, 2u);

  const auto added = store_->comparisons().CreateComparison(
      "mine", std::vector<std::string>{"golden", "target"});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_TRUE(store_->comparisons()
                  .PutComparisonRows(*added, 0, std::vector<std::string>{"row"})
                  .ok());
  EXPECT_TRUE(store_->comparisons().DeleteComparison(comparison_).ok());
  EXPECT_TRUE(Snapshot() == before);
  Drop();
  ASSERT_TRUE(TryRecover().ok());
  EXPECT_FALSE(store_->comparisons().GetComparison(*added).ok());
  EXPECT_TRUE(store_->comparisons().GetComparison(comparison_).ok());
}

TEST_F(RecoveredStoreTest, OthersCanReadAndNobodyCanWrite) {
  Fill();
  ASSERT_TRUE(TryRecover().ok());
  EXPECT_TRUE(OpenRecovered(options_, scratch(), Env::Posix()).ok());
  const auto writer = Store::Open(options_, Env::Posix());
  EXPECT_EQ(writer.status().code(), absl::StatusCode::kFailedPrecondition);
  Drop();
  Open();
  EXPECT_EQ(OpenRecovered(options_, scratch(), Env::Posix()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(RecoveredStoreTest, MissingSegmentsAreLostAndNotExpired) {
  options_.segment_bytes_max = 300'000;
  Fill();
  fs::remove(SegmentPath(1));
  ASSERT_TRUE(TryRecover().ok());
  const MissingSegments missing = store_->upkeep().Stats().missing;
  ASSERT_EQ(missing.count, 1u);
  EXPECT_GT(missing.bytes, 0u);
  size_t lost = 0;
  for (const TestTensor& tensor : tensors_) {
    const auto bytes = Read(tensor.key);
    if (bytes.ok()) continue;
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kDataLoss);
    ++lost;
  }
  EXPECT_GT(lost, 0u);
  EXPECT_LT(lost, tensors_.size());
}

TEST_F(RecoveredStoreTest, ARebuildThatWasKilledIsReadToo) {
  Fill();
  fs::rename(index(), options_.directory + "/index.rebuilt");
  const auto before = Snapshot();
  ASSERT_TRUE(TryRecover().ok());
  EXPECT_THAT(report_.damage, IsEmpty());
  EXPECT_TRUE(store_->comparisons().GetComparison(comparison_).ok());
  Drop();
  EXPECT_TRUE(Snapshot() == before);
}

TEST_F(RecoveredStoreTest, AFailureAtAnyPointLeavesTheStoreAsItWas) {
  Fill();
  fs::remove(index() / "CURRENT");
  const auto before = Snapshot();
  int failures = 0;
  for (uint64_t number = 1;; ++number) {
    FaultEnv env(Env::Fleeting());
    env.FailAt(number, absl::ResourceExhaustedError("no room"), true);
    const absl::Status status = TryRecover(env);
    Drop();
    ASSERT_TRUE(Snapshot() == before) << number;
    ASSERT_THAT(Leftovers(), IsEmpty()) << number;
    if (status.ok()) break;
    ++failures;
  }
  EXPECT_GT(failures, 5);
  ASSERT_TRUE(TryRecover().ok());
  ExpectAllTensors();
}

}  // namespace
}  // namespace msitd::storage
