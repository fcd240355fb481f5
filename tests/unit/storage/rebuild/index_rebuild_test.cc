// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/index_rebuild.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "protos/base/byte_codec.h"
#include "protos/base/resource_name.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"
#include "storage/index/db/row_block.h"
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

  // Closes the store as a daemon does when it stops.
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

  // Creates a store with runs, shared strings, aliases, large tensors, a
  // comparison and an attachment. Some of them are only in the log of the
  // index.
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
                                     op == 0 ? 5'000'000 / 32 : 100 + 7 * op,
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

  // Rebuilds the index twice, and expects all tensors each time.
  void CheckRebuiltTwice(Env& env) {
    const auto report = TryRebuild(env);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(problems_, IsEmpty());
    ASSERT_TRUE(TryOpen(env).ok());
    ExpectAllTensors();
    if (report->is_complete()) ExpectEverything();
    if (store_->runs().GetRun("gone").ok()) {
      EXPECT_THAT(report->notes,
                  ::testing::Contains(HasSubstr("deleted runs may be")));
    }
    Close();
    const auto again = TryRebuild(env);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_THAT(again->notes, IsEmpty());
    EXPECT_THAT(again->damage, IsEmpty());
    EXPECT_EQ(again->check.entry_count, report->check.entry_count);
    EXPECT_EQ(again->import.comparison_count, report->import.comparison_count);
    EXPECT_THAT(again->recovered_runs, IsEmpty());
    ASSERT_TRUE(TryOpen(env).ok());
    ExpectAllTensors();
    Drop();
  }

  // Each entry damages the files of the index whose names contain `files`.
  struct Damage {
    std::string files;
    std::string what;
    std::function<void(const fs::path&, std::mt19937&)> apply;
  };

  static std::vector<Damage> AllDamages() {
    const auto remove = [](const fs::path& path, std::mt19937&) {
      fs::remove(path);
    };
    const auto empty = [](const fs::path& path, std::mt19937&) {
      fs::resize_file(path, 0);
    };
    const auto cut = [](const fs::path& path, std::mt19937& random) {
      const uint64_t size = fs::file_size(path);
      fs::resize_file(path, size == 0 ? 0 : random() % size);
    };
    const auto flip = [](const fs::path& path, std::mt19937& random) {
      std::string bytes = ReadFile(path);
      if (bytes.empty()) return;
      for (int i = 0; i < 3; ++i) {
        bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
      }
      WriteFile(path, bytes);
    };
    const auto garbage = [](const fs::path& path, std::mt19937& random) {
      std::string bytes(fs::file_size(path), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      WriteFile(path, bytes);
    };
    std::vector<Damage> damages;
    for (const char* const files :
         {"CURRENT", "MANIFEST", ".sst", ".log", ""}) {
      damages.push_back({files, "removed", remove});
      damages.push_back({files, "emptied", empty});
      damages.push_back({files, "cut", cut});
      damages.push_back({files, "flipped", flip});
      damages.push_back({files, "garbage", garbage});
    }
    return damages;
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
  const RunContinuations continued{
      .jobs = {{.job = "launch", .number = 1, .first_token = 3}},
      .rank = RankContinuation{.number = 1, .stream_id = 9}};
  ASSERT_TRUE(
      store_->runs().SetContinuations("target", 2, continued, true).ok());
  Close();
  const RebuildReport report = Rebuild();
  EXPECT_THAT(report.notes, IsEmpty());
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_TRUE(report.is_complete());
  EXPECT_THAT(report.damage, IsEmpty());
  EXPECT_EQ(report.kept_run_count, 2u);
  EXPECT_EQ(report.deleted_run_count, 1u);
  EXPECT_EQ(report.import.comparison_count, 1u);
  EXPECT_EQ(report.import.attachment_count, 1u);
  EXPECT_EQ(report.old_index, options_.directory + "/index.damaged-1");
  Open();
  ExpectEverything();
  const auto kept = store_->runs().GetContinuations("target", 2);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->jobs, continued.jobs);
  EXPECT_EQ(kept->rank, continued.rank);
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
  // The number of a former run is not reused.
  const auto next = store_->runs().CreateRun({"next", 0, {}});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(static_cast<uint64_t>(next->id), 4u);
}

TEST_F(IndexRebuildTest, AnyDamageToTheIndexLeavesEveryTensorReadable) {
  Env& env = Env::Fleeting();
  std::mt19937 random(20);
  for (const bool crashes : {false, true}) {
    options_.directory = dir_ / (crashes ? "crashed" : "closed");
    tensors_.clear();
    closes_between_ = true;
    Fill();
    if (crashes) {
      Drop();
    } else {
      Close();
    }
    const std::string original = options_.directory;
    for (const Damage& damage : AllDamages()) {
      // Only a store that crashed has entries that exist only in the log.
      if (crashes && damage.files != ".log" && !damage.files.empty()) continue;
      // The damage affects one file or all files.
      for (const bool hits_all : {false, true}) {
        // There is only one such file.
        if (hits_all &&
            (damage.files == "CURRENT" || damage.files == "MANIFEST")) {
          continue;
        }
        SCOPED_TRACE(fmt::format("{} {} {} {}", original, damage.files,
                                 damage.what, hits_all ? "all" : "one"));
        options_.directory = original + "-copy";
        fs::copy(original, options_.directory, fs::copy_options::recursive);
        std::vector<fs::path> files = IndexFiles(damage.files);
        if (!hits_all && !files.empty()) {
          files = {files[random() % files.size()]};
        }
        for (const fs::path& path : files) damage.apply(path, random);
        CheckRebuiltTwice(env);
        fs::remove_all(options_.directory);
        if (HasFatalFailure()) return;
      }
    }
    options_.directory = original;
  }
}

TEST_F(IndexRebuildTest, WithItsRunTableTheIndexKeepsSettingsAndDeletions) {
  Fill();
  Close();
  // The manifest lists the tables, which are all intact.
  for (const fs::path& path : IndexFiles("CURRENT")) fs::remove(path);
  const RebuildReport report = Rebuild();
  EXPECT_THAT(report.notes, IsEmpty());
  EXPECT_TRUE(report.is_complete());
  Open();
  ExpectEverything();
}

TEST_F(IndexRebuildTest, WithoutAManifestSettingsAndComparisonsAreFound) {
  Fill();
  Close();
  for (const fs::path& path : IndexFiles("MANIFEST")) fs::remove(path);
  const RebuildReport report = Rebuild();
  EXPECT_FALSE(report.is_complete());
  EXPECT_EQ(report.kept_run_count, 2u)
      << ::testing::PrintToString(report.damage);
  EXPECT_THAT(problems_, IsEmpty());
  Open();
  ExpectAllTensors();
  EXPECT_EQ(store_->runs().GetRun("golden")->spec.owner, "uid:7");
  EXPECT_TRUE(*store_->comparisons().GetComparisonRows(comparison_, 0, 1000) ==
              rows_);
}

TEST_F(IndexRebuildTest, RunsOfALostLogAreNotTakenForDeletedOnes) {
  OpenWithRun("old");
  ASSERT_TRUE(Append({MakeTensor("old", 0, "op", 100)}).ok());
  Close();
  Open();
  ASSERT_TRUE(store_->runs().CreateRun({"new", 0, {}}).ok());
  const TestTensor tensor = MakeTensor("new", 0, "op", 100);
  ASSERT_TRUE(Append(TestChunks(5, 0, {tensor})).ok());
  Drop();
  for (const fs::path& path : IndexFiles(".log")) fs::resize_file(path, 0);
  const RebuildReport report = Rebuild();
  EXPECT_THAT(report.recovered_runs, ElementsAre("new"));
  EXPECT_FALSE(report.is_complete());
  Open();
  ExpectStored(tensor);
}

TEST_F(IndexRebuildTest, OfRunsWithOneNameOnlyTheLastIsThere) {
  OpenWithRun("r");
  ASSERT_TRUE(store_->runs().CreateRun({"other", 0, {}}).ok());
  ASSERT_TRUE(Append({MakeTensor("other", 0, "op", 100)}).ok());
  ASSERT_TRUE(
      Append(TestChunks(5, 0, {MakeTensor("r", 0, "early", 100)})).ok());
  ASSERT_TRUE(store_->runs().DeleteRun("r").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"r", 0, {}}).ok());
  ASSERT_TRUE(Append(TestChunks(6, 0, {MakeTensor("r", 0, "late", 100)})).ok());
  Close();
  fs::remove_all(index());
  const RebuildReport report = Rebuild();
  EXPECT_EQ(report.deleted_run_count, 1u);
  EXPECT_THAT(report.recovered_runs, UnorderedElementsAre("other", "r"));
  Open();
  EXPECT_THAT(ScanOps("r"), ElementsAre("late"));
}

// Shared or expired bytes leave holes.
class RebuildHolesTest : public IndexRebuildTest {
 protected:
  static constexpr uint64_t kBytes = 10 * 4096;

  RebuildHolesTest() { options_.segment_bytes_max = 3 * 11 * 4096; }

  TestTensor Weights(int64_t token) {
    return MakeTensor("r", token, "weights", kBytes, 9999);
  }
  TestTensor Other(int64_t token) {
    return MakeTensor("r", token, "other", kBytes,
                      static_cast<uint32_t>(1 + token));
  }

  void FillTokens(int64_t count) {
    OpenWithRun("r");
    for (int64_t token = 0; token < count; ++token) {
      const TestTensor weights = Weights(token);
      ASSERT_TRUE(
          Append({weights, MakeAlias(weights, "view"), Other(token)}).ok());
    }
    Close();
    Open();
  }

  void ShareAll() {
    uint64_t bytes = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto step = store_->upkeep().Share();
      ASSERT_TRUE(step.ok()) << step.status();
      bytes += step->shared_bytes;
      if (step->is_done) break;
    }
    EXPECT_GT(bytes, 0u);
  }

  void RetainTokens(int64_t count) {
    const RetentionPolicy policy{.run = {.token_count = count}};
    for (int i = 0; i < 1000; ++i) {
      const auto step = store_->upkeep().Retain(policy);
      ASSERT_TRUE(step.ok()) << step.status();
      if (step->is_done) return;
    }
    FAIL() << "retention does not end";
  }

  void ExpectGivenUp(const TestTensor& tensor) {
    const auto info = read_->GetTensor(tensor.key);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->hash, chunk::HashBytes(tensor.bytes));
    const auto bytes = Read(tensor.key);
    EXPECT_EQ(Reason(bytes.status()), "TENSOR_EXPIRED") << bytes.status();
  }
};

TEST_F(RebuildHolesTest, SharedBytesAreFoundAgain) {
  constexpr int64_t kTokens = 8;
  FillTokens(kTokens);
  ShareAll();
  Close();
  for (const bool loses_index : {false, true}) {
    SCOPED_TRACE(loses_index);
    if (loses_index) fs::remove_all(index());
    const RebuildReport report = Rebuild();
    EXPECT_THAT(problems_, IsEmpty());
    EXPECT_EQ(report.lost_marks.shared_count, loses_index ? 1u : 0u);
    EXPECT_EQ(report.is_complete(), !loses_index);
    Open();
    for (int64_t token = 0; token < kTokens; ++token) {
      SCOPED_TRACE(token);
      ExpectStored(Weights(token));
      ExpectStored(MakeAlias(Weights(token), "view"));
      ExpectStored(Other(token));
    }
    Close();
  }
}

TEST_F(RebuildHolesTest, BytesThatWereGivenUpStayGivenUp) {
  constexpr int64_t kTokens = 12;
  constexpr int64_t kKept = 4;
  FillTokens(kTokens);
  ShareAll();
  RetainTokens(kKept);
  const uint64_t expired = store_->runs().GetRun("r")->counters.expired_bytes;
  EXPECT_GT(expired, 0u);
  Close();
  EXPECT_FALSE(fs::exists(SegmentPath(1)));
  const std::string original = options_.directory;
  enum class Damage { kNone, kManifest, kAll };
  for (const Damage damage : {Damage::kNone, Damage::kManifest, Damage::kAll}) {
    SCOPED_TRACE(static_cast<int>(damage));
    const bool loses_index = damage == Damage::kAll;
    options_.directory = original + "-copy";
    fs::copy(original, options_.directory, fs::copy_options::recursive);
    if (loses_index) fs::remove_all(index());
    if (damage == Damage::kManifest) {
      for (const fs::path& path : IndexFiles("MANIFEST")) fs::remove(path);
    }
    const RebuildReport report = Rebuild();
    EXPECT_THAT(problems_, IsEmpty());
    EXPECT_EQ(report.is_complete(), damage == Damage::kNone);
    Open();
    for (int64_t token = 0; token < kTokens; ++token) {
      SCOPED_TRACE(token);
      if (token >= kTokens - kKept) {
        ExpectStored(Weights(token));
        ExpectStored(Other(token));
      } else if (!loses_index || read_->GetTensor(Other(token).key).ok()) {
        ExpectGivenUp(Other(token));
      }
    }
    const auto run = store_->runs().GetRun("r");
    EXPECT_EQ(store_->upkeep().Stats().missing.count, 0u);
    if (!loses_index) {
      EXPECT_GT(report.old_entries.kept_count, 0u);
      EXPECT_EQ(run->counters.expired_bytes, expired);
      EXPECT_EQ(run->counters.payload_bytes, 2 * kTokens * kBytes);
      EXPECT_EQ(run->counters.tensor_count, 3u * kTokens);
      EXPECT_EQ(ScanKeys("r").size(), 3u * kTokens);
    }
    Close();
    fs::remove_all(options_.directory);
  }
}

TEST_F(IndexRebuildTest, DamagedSegmentsAreReportedAndTheRestIsReadable) {
  Fill();
  Close();
  // The head of the second frame is damaged.
  {
    std::fstream file(SegmentPath(1), std::ios::in | std::ios::out);
    const uint64_t frame = ReadFile(SegmentPath(1)).find("MSTC", 8192);
    ASSERT_NE(frame, std::string::npos);
    file.seekp(static_cast<std::streamoff>(frame) + 200);
    file << "damaged";
  }
  fs::remove_all(index());
  const RebuildReport report = Rebuild();
  EXPECT_FALSE(report.is_complete());
  EXPECT_EQ(report.check.problem_count, 1u);
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("no frame for")));
  Open();
  size_t found = 0;
  for (const TestTensor& tensor : tensors_) {
    if (!read_->GetTensor(tensor.key).ok()) continue;
    ++found;
    ExpectStored(tensor);
  }
  EXPECT_EQ(found, tensors_.size() - 6);
}

// Otherwise, their numbers would be compared with those of new continuations.
TEST_F(IndexRebuildTest, RanksWhoseContinuationsAreLostAreLeftOut) {
  Fill();
  const RunContinuations continued{
      .jobs = {{.job = "launch", .number = 5, .first_token = 3}},
      .rank = RankContinuation{.number = 5, .stream_id = 9}};
  for (const char* const run : {"golden", "target"}) {
    ASSERT_TRUE(store_->runs().SetContinuations(run, 2, continued, true).ok());
  }
  const auto target = store_->runs().GetRun("target");
  ASSERT_TRUE(target.ok());
  Close();
  {
    auto db = IndexDb::Open({.directory = index()});
    ASSERT_TRUE(db.ok()) << db.status();
    rocksdb::WriteBatch batch;
    (*db)->Delete(batch, Table::kRun,
                  "j" + BigEndianKey(static_cast<uint64_t>(target->id)));
    ASSERT_TRUE((*db)->WriteDurable(batch).ok());
    ASSERT_TRUE((*db)->Flush().ok());
  }
  Rebuild();
  Open();
  EXPECT_FALSE(store_->runs().GetContinuations("target", 2)->rank.has_value());
  EXPECT_EQ(store_->runs().GetContinuations("golden", 2)->rank, continued.rank);
}

TEST_F(IndexRebuildTest, DamagedAttachmentsAndRowsAreLeftOut) {
  Fill();
  Close();
  {
    auto db = IndexDb::Open({.directory = index()});
    ASSERT_TRUE(db.ok()) << db.status();
    rocksdb::WriteBatch batch;
    const std::string id = BigEndianKey(1);
    (*db)->Put(batch, Table::kRun, "b" + id + BigEndianKey(1), "other bytes");
    (*db)->Put(batch, Table::kComparison, "b" + id + BigEndianKey(2), "?");
    ASSERT_TRUE((*db)->WriteDurable(batch).ok());
    ASSERT_TRUE((*db)->Flush().ok());
  }
  const RebuildReport report = Rebuild();
  EXPECT_EQ(report.import.lost_attachment_count, 1u);
  EXPECT_EQ(report.import.cut_comparison_count, 1u);
  EXPECT_FALSE(report.is_complete());
  EXPECT_THAT(problems_, IsEmpty());
  Open();
  ExpectAllTensors();
  EXPECT_THAT(*store_->attachments().ListAttachments("golden", "", 10),
              IsEmpty());
  const auto rows =
      store_->comparisons().GetComparisonRows(comparison_, 0, 999);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 2 * kRowsMax);
}

TEST_F(IndexRebuildTest, AFailureAtAnyPointLeavesTheIndexAsItWas) {
  Fill();
  Close();
  for (const fs::path& path : IndexFiles("CURRENT")) fs::remove(path);
  const auto describe = [this] {
    std::map<std::string, std::string> out;
    for (const auto& entry :
         fs::recursive_directory_iterator(options_.directory)) {
      if (!entry.is_regular_file()) continue;
      out[entry.path().string()] = ReadFile(entry.path());
    }
    return out;
  };
  const auto before = describe();
  FaultEnv env(Env::Fleeting());
  env.CountIndex();
  int failures = 0;
  for (uint64_t number = 1;; number += number < 10 ? 1 : 9) {
    SCOPED_TRACE(number);
    env.FailAt(number, absl::ResourceExhaustedError("the disk is full"), true);
    const auto report = TryRebuild(env);
    env.StopFailing();
    if (report.ok()) break;
    ++failures;
    ASSERT_TRUE(describe() == before);
  }
  EXPECT_GT(failures, 15);
  ASSERT_TRUE(TryOpen(Env::Fleeting()).ok());
  ExpectAllTensors();
}

TEST_F(IndexRebuildTest, WhatAKilledRebuildLeftIsTidiedUp) {
  Fill();
  Close();
  const std::string base = options_.directory;
  // The rebuild was killed while it was building the index.
  fs::create_directories(base + "/index.rebuilding/salvage/as-is");
  EXPECT_TRUE(Rebuild().is_complete());
  EXPECT_FALSE(fs::exists(base + "/index.rebuilding"));
  EXPECT_TRUE(fs::exists(base + "/index.damaged-1"));
  // The rebuild was killed before the old index was renamed.
  fs::rename(base + "/index.damaged-1", base + "/index.rebuilt");
  EXPECT_TRUE(Rebuild().is_complete());
  EXPECT_FALSE(fs::exists(base + "/index.rebuilt"));
  EXPECT_TRUE(fs::exists(base + "/index.damaged-2"));
  // The rebuild was killed between two renames, on a file system that cannot
  // exchange names.
  fs::rename(base + "/index", base + "/index.rebuilt");
  EXPECT_TRUE(Rebuild().is_complete());
  Open();
  ExpectEverything();
}

TEST_F(IndexRebuildTest, AnotherDirectoryCanTakeTheNewIndex) {
  Fill();
  Close();
  const std::string target = dir_ / "target";
  const auto report = TryRebuild(Env::Posix(), target);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index, target);
  EXPECT_EQ(report->old_index, "");
  EXPECT_FALSE(fs::exists(index().string() + ".damaged-1"));
  EXPECT_EQ(TryRebuild(Env::Posix(), target).status().code(),
            absl::StatusCode::kFailedPrecondition)
      << "it is not empty";
  fs::remove_all(index());
  fs::rename(target, index());
  Open();
  ExpectEverything();
}

TEST_F(IndexRebuildTest, IsRefusedWhereItCannotHelp) {
  EXPECT_FALSE(TryRebuild().ok()) << "there is no directory";
  Fill();
  EXPECT_EQ(TryRebuild().status().code(), absl::StatusCode::kFailedPrecondition)
      << "the store is open";
  Close();
  {
    auto db = IndexDb::Open({.directory = index()});
    ASSERT_TRUE(db.ok()) << db.status();
    std::string newer = *(*db)->Get(Table::kMeta, "store").value();
    newer[0] = static_cast<char>(StoreVersion() + 1);
    rocksdb::WriteBatch batch;
    (*db)->Put(batch, Table::kMeta, "store", newer);
    ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  }
  const auto newer = TryRebuild();
  EXPECT_EQ(newer.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(newer.status().message()),
              HasSubstr("written by a newer msitd"));
  EXPECT_FALSE(fs::exists(index().string() + ".damaged-1"));
}

TEST_F(IndexRebuildTest, TheCommandTellsWhatItDid) {
  Fill();
  Close();
  const auto run = [this](std::ostringstream& out, std::ostringstream& err) {
    const std::string option = "--data-dir=" + options_.directory;
    const char* args[] = {"msitd-inspect", "rebuild", option.c_str()};
    return RunInspect(3, args, out, err);
  };
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(run(out, err), InspectExit::kOk) << out.str() << err.str();
  EXPECT_THAT(out.str(), HasSubstr("old index: sound\n"));
  EXPECT_THAT(out.str(), HasSubstr("runs=2 runs_only_in_segments=0 "
                                   "deleted_runs=1 comparisons=1 "));
  EXPECT_THAT(out.str(), HasSubstr("old index kept in: " + index().string() +
                                   ".damaged-1\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("note:")));
  fs::remove_all(index());
  out.str("");
  EXPECT_EQ(run(out, err), InspectExit::kProblems);
  EXPECT_THAT(out.str(), HasSubstr("run golden: only in segments\n"));
  EXPECT_THAT(out.str(), HasSubstr("note: deleted runs may be back"));
  fs::remove_all(options_.directory);
  EXPECT_EQ(run(out, err), InspectExit::kCannotOpen);
  EXPECT_THAT(err.str(), HasSubstr("msitd-inspect: rebuild the index of "));
}

}  // namespace
}  // namespace msitd::storage
