// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/index_rebuild.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "protos/base/resource_name.h"
#include "storage/inspect/inspect_command.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using msitd::testing::FaultEnv;
using msitd::testing::MakeAlias;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

class IndexRebuildTest : public StoreTest {
 protected:
  fs::path index() const { return options_.directory + "/index"; }

  // Closes the store as a daemon that ends does.
  void Close() {
    ASSERT_TRUE(store_->Close().ok());
    Drop();
  }

  absl::StatusOr<RebuildReport> TryRebuild(Env& env = Env::Posix(),
                                           const std::string& target = "") {
    problems_.clear();
    return RebuildIndex({options_.directory, target}, env,
                        [this](const StoreProblem& problem) {
                          problems_.push_back(problem.what);
                        });
  }

  RebuildReport Rebuild() {
    auto report = TryRebuild();
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : RebuildReport();
  }

  std::vector<fs::path> IndexFiles(std::string_view part) const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(index())) {
      if (entry.path().filename().string().find(part) != std::string::npos) {
        out.push_back(entry.path());
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  static std::string ReadFile(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static void WriteFile(const fs::path& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << bytes;
  }

  // A store with runs, shared strings, aliases, large tensors, a comparison
  // and an attachment; part of it only in the log of the index.
  void Fill() {
    Open();
    ASSERT_TRUE(store_->runs()
                    .CreateRun({.name = "golden",
                                .world_size = 1,
                                .labels = {{"model", "m"}},
                                .job = "j",
                                .owner = "uid:7"})
                    .ok());
    ASSERT_TRUE(store_->runs().CreateRun({"gone", 0, {}}).ok());
    Record("golden", 1, 3);
    Record("gone", 2, 3);
    ASSERT_TRUE(store_->runs().SealRun("golden").ok());
    if (closes_between_) {
      Close();
      Open();
    }
    ASSERT_TRUE(store_->runs().CreateRun({"target", 0, {}}).ok());
    Record("target", 3, 3);
    ASSERT_TRUE(store_->runs().DeleteRun("gone").ok());
    tensors_.erase(std::remove_if(tensors_.begin(), tensors_.end(),
                                  [](const TestTensor& tensor) {
                                    return tensor.key.run == "gone";
                                  }),
                   tensors_.end());
    const auto id = store_->comparisons().CreateComparison(
        "document", std::vector<std::string>{"golden", "target"});
    ASSERT_TRUE(id.ok()) << id.status();
    comparison_ = *id;
    rows_.clear();
    for (int i = 0; i < 300; ++i) rows_.push_back(fmt::format("row {}", i));
    ASSERT_TRUE(store_->comparisons().PutComparisonRows(*id, 0, rows_).ok());
    ASSERT_TRUE(store_->comparisons().PutComparison(*id, "document 2").ok());
    auto writer =
        store_->attachments().Begin({"golden", "notes", "text/plain"});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append(std::string(700'000, 'x')).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
  }

  void Record(const std::string& run, uint64_t stream, int tokens) {
    uint64_t chunk = 0;
    for (int token = 0; token < tokens; ++token) {
      std::vector<TestTensor> records;
      for (int op = 0; op < 5; ++op) {
        records.push_back(MakeTensor(run, token, fmt::format("op{}", op),
                                     op == 0 ? 5'000'000 / 8 : 100 + 7 * op,
                                     static_cast<uint32_t>(31 * token + op)));
      }
      TestTensor alias = MakeAlias(records[1], "view");
      records.push_back(alias);
      for (const TestTensor& record : records) tensors_.push_back(record);
      ASSERT_TRUE(Append(TestChunks(stream, chunk++, records)).ok());
    }
  }

  void ExpectAllTensors() {
    for (const TestTensor& tensor : tensors_) {
      SCOPED_TRACE(FormatTensorName(tensor.key));
      ExpectStored(tensor);
    }
  }

  void ExpectEverything() {
    ExpectAllTensors();
    const auto run = store_->runs().GetRun("golden");
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->spec.owner, "uid:7");
    EXPECT_EQ(run->spec.job, "j");
    EXPECT_EQ(run->spec.labels.at("model"), "m");
    EXPECT_TRUE(run->sealed);
    EXPECT_FALSE(store_->runs().GetRun("gone").ok());
    const auto document = store_->comparisons().GetComparison(comparison_);
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(*document, "document 2");
    const auto rows =
        store_->comparisons().GetComparisonRows(comparison_, 0, 1000);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_TRUE(*rows == rows_);
  }

  std::vector<std::string> RunNames() {
    std::vector<std::string> out;
    const auto runs = store_->runs().ListRuns("", 100);
    EXPECT_TRUE(runs.ok()) << runs.status();
    for (const RunInfo& run : *runs) out.push_back(run.spec.name);
    return out;
  }

  bool closes_between_ = true;
  std::vector<TestTensor> tensors_;
  uint64_t comparison_ = 0;
  std::vector<std::string> rows_;
  std::vector<std::string> problems_;
};

TEST_F(IndexRebuildTest, ASoundIndexIsRebuiltAsItWas) {
  Fill();
  Close();
  const RebuildReport report = Rebuild();
  EXPECT_THAT(report.notes, IsEmpty());
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_TRUE(report.is_complete());
  EXPECT_EQ(report.damage, "");
  EXPECT_EQ(report.kept_run_count, 2u);
  EXPECT_EQ(report.deleted_run_count, 1u);
  EXPECT_EQ(report.import.comparison_count, 1u);
  EXPECT_EQ(report.import.attachment_count, 1u);
  EXPECT_EQ(report.old_index, options_.directory + "/index.damaged-1");
  Open();
  ExpectEverything();
  Close();
  const RebuildReport again = Rebuild();
  EXPECT_TRUE(again.is_complete());
  EXPECT_EQ(again.old_index, options_.directory + "/index.damaged-2");
  EXPECT_EQ(again.check.entry_count, report.check.entry_count);
  EXPECT_EQ(again.check.frame_count, report.check.frame_count);
  Open();
  ExpectEverything();
}

TEST_F(IndexRebuildTest, WhatOnlyTheLogOfACrashedIndexHasIsKept) {
  closes_between_ = false;
  Fill();
  Drop();
  const RebuildReport report = Rebuild();
  EXPECT_THAT(report.notes, IsEmpty());
  EXPECT_TRUE(report.is_complete());
  Open();
  ExpectEverything();
}

TEST_F(IndexRebuildTest, ALostIndexIsRebuiltFromTheSegments) {
  Fill();
  Close();
  fs::remove_all(index());
  const absl::Status refused = TryOpen();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("msitd-inspect rebuild"));
  EXPECT_THAT(IndexFiles(""), IsEmpty()) << "a refused start made an index";
  const RebuildReport report = Rebuild();
  EXPECT_FALSE(report.is_complete());
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_THAT(report.recovered_runs,
              UnorderedElementsAre("golden", "gone", "target"));
  Open();
  ExpectAllTensors();
  const auto run = store_->runs().GetRun("golden");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->spec.owner, "");
  EXPECT_EQ(run->spec.labels.at("rebuilt"), "from segments");
  EXPECT_FALSE(run->sealed);
  EXPECT_GT(run->create_time_ns, 0);
  // Nothing is given the number of a run that there was.
  const auto next = store_->runs().CreateRun({"next", 0, {}});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(static_cast<uint64_t>(next->id), 4u);
}

}  // namespace
}  // namespace msitd::storage
