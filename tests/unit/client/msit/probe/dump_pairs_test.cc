// SPDX-License-Identifier: Apache-2.0
#include "client/msit/probe/dump_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::msit_command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Source = trees::MsprobeIndex::Source;

class Dumps {
 public:
  void Write(const std::string& relative) const {
    const std::filesystem::path path = dir_ / relative;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << R"({"data": {}})";
  }
  std::string path(const std::string& relative) const {
    return dir_ / relative;
  }

  // Returns `LABEL: golden target` of each pair, with paths below the folder.
  std::vector<std::string> Find(const std::string& golden,
                                const std::string& target) {
    const auto found = FindProbePairs(path(golden), path(target));
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> out;
    if (!found.ok()) return out;
    warnings = found->warnings;
    for (const ProbePair& pair : found->pairs) {
      source = pair.source;
      out.push_back(fmt::format("{}: {} {}", pair.label, Below(pair.golden),
                                Below(pair.target)));
    }
    return out;
  }

  absl::Status ErrorOf(const std::string& golden,
                       const std::string& target) const {
    return FindProbePairs(path(golden), path(target)).status();
  }

  std::vector<std::string> warnings;
  Source source = Source::kDump;

 private:
  std::string Below(const std::string& found) const {
    return std::filesystem::path(found).lexically_relative(dir_.path());
  }

  const testing::TempDir dir_ = testing::TempDir::InMemory();
};

TEST(DumpPairsTest, TwoFilesAndTwoRanksAreOnePair) {
  Dumps dumps;
  dumps.Write("g/step0/rank0/dump.json");
  dumps.Write("t/step3/rank1/dump.json");
  for (const char* end : {"", "/", "/dump.json"}) {
    EXPECT_THAT(dumps.Find(std::string("g/step0/rank0") + end,
                           std::string("t/step3/rank1") + end),
                ElementsAre(::testing::StartsWith(": g/step0/rank0")));
    EXPECT_THAT(dumps.warnings, IsEmpty());
    EXPECT_EQ(dumps.source, Source::kDump);
  }
}

TEST(DumpPairsTest, RanksOfTwoStepsArePairedByTheirNumbers) {
  Dumps dumps;
  for (const char* rank : {"rank10", "rank2", "rank0"}) {
    dumps.Write(std::string("g/step0/") + rank + "/dump.json");
  }
  for (const char* rank : {"rank2", "rank10", "rank7"}) {
    dumps.Write(std::string("t/step4/") + rank + "/dump.json");
  }
  EXPECT_THAT(dumps.Find("g/step0", "t/step4"),
              ElementsAre("_rank2: g/step0/rank2 t/step4/rank2",
                          "_rank10: g/step0/rank10 t/step4/rank10"));
  EXPECT_THAT(dumps.warnings,
              ElementsAre(HasSubstr("rank 0 is not compared: only"),
                          HasSubstr("rank 7 is not compared: only")));
}

TEST(DumpPairsTest, RanksWithOtherNumbersArePairedByTheirOrder) {
  Dumps dumps;
  dumps.Write("g/step0/rank0/dump.json");
  dumps.Write("g/step0/rank1/dump.json");
  dumps.Write("t/step0/rank4/dump.json");
  dumps.Write("t/step0/rank5/dump.json");
  EXPECT_THAT(dumps.Find("g/step0", "t/step0"),
              ElementsAre("_rank4: g/step0/rank0 t/step0/rank4",
                          "_rank5: g/step0/rank1 t/step0/rank5"));
  EXPECT_EQ(dumps.warnings.size(), 2U);
}

TEST(DumpPairsTest, ProcessesArePairedByTheirOrderWithWarnings) {
  Dumps dumps;
  for (const char* process : {"g/proc7", "g/proc12", "t/proc9", "t/proc13"}) {
    dumps.Write(std::string(process) + "/dump.json");
  }
  EXPECT_THAT(dumps.Find("g", "t"), ElementsAre("_proc9: g/proc7 t/proc9",
                                                "_proc13: g/proc12 t/proc13"));
  EXPECT_THAT(dumps.warnings, ::testing::Contains(::testing::AllOf(
                                  HasSubstr("g/proc7"), HasSubstr("t/proc9"),
                                  HasSubstr("the same position"))));
  EXPECT_THAT(dumps.warnings, ::testing::Contains(::testing::AllOf(
                                  HasSubstr("proc12"), HasSubstr("proc13"))));
}

TEST(DumpPairsTest, AProcessAndARankAreNotPairedSilently) {
  Dumps dumps;
  for (const char* rank : {"g/rank0", "g/rank1", "t/rank0", "t/proc5"}) {
    dumps.Write(std::string(rank) + "/dump.json");
  }
  EXPECT_THAT(dumps.Find("g", "t"), ElementsAre("_rank0: g/rank0 t/rank0",
                                                "_proc5: g/rank1 t/proc5"));
  EXPECT_THAT(dumps.warnings,
              ::testing::Contains(HasSubstr("the same position")).Times(1));
}

TEST(DumpPairsTest, EntriesThatAreNotDumpsAreNamed) {
  Dumps dumps;
  dumps.Write("g/step0/rank0/dump.json");
  dumps.Write("g/step_1/rank0/dump.json");
  dumps.Write("t/step0/rank0/dump.json");
  dumps.Write("t/step0/rank_5/dump.json");
  EXPECT_THAT(dumps.Find("g", "t"),
              ElementsAre("_rank0: g/step0/rank0 t/step0/rank0"));
  EXPECT_THAT(dumps.warnings,
              ElementsAre(HasSubstr("step_1"), HasSubstr("rank_5")));
  for (int i = 0; i < 100; ++i) {
    dumps.Write(fmt::format("t/step0/other{}/file", i));
  }
  dumps.Find("g", "t");
  EXPECT_EQ(dumps.warnings.size(), 22U);
  EXPECT_THAT(dumps.warnings.back(), HasSubstr("81 more entries"));
  // The graph of one dump has warnings once.
  dumps.Find("g", "g");
  EXPECT_THAT(dumps.warnings, ElementsAre(HasSubstr("step_1")));
}

TEST(DumpPairsTest, SeveralStepsArePairedByTheirNumbers) {
  Dumps dumps;
  for (const char* step : {"g/step0", "g/step1", "t/step1", "t/step2"}) {
    dumps.Write(std::string(step) + "/rank0/dump.json");
  }
  EXPECT_THAT(dumps.Find("g", "t"),
              ElementsAre("_step1_rank0: g/step1/rank0 t/step1/rank0"));
  EXPECT_THAT(dumps.warnings, ElementsAre(HasSubstr("step 0 is not compared"),
                                          HasSubstr("step 2 is not compared")));
}

TEST(DumpPairsTest, DebugJsonIsASourceOfItsOwn) {
  Dumps dumps;
  dumps.Write("g/rank0/debug.json");
  dumps.Write("t/rank0/debug.json");
  dumps.Write("d/rank0/dump.json");
  EXPECT_THAT(dumps.Find("g", "t"), ElementsAre("_rank0: g/rank0 t/rank0"));
  EXPECT_EQ(dumps.source, Source::kDebug);
  EXPECT_TRUE(absl::IsInvalidArgument(dumps.ErrorOf("g", "d")));
}

TEST(DumpPairsTest, OtherPathsAreErrors) {
  Dumps dumps;
  dumps.Write("g/step0/rank0/dump.json");
  dumps.Write("g/step0/rank1/dump.json");
  dumps.Write("t/step0/rank2/dump.json");
  dumps.Write("other/file.json");
  EXPECT_TRUE(absl::IsNotFound(dumps.ErrorOf("g", "gone")));
  for (const char* path :
       {"other", "other/file.json", "t/step0/rank2", "t/step0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(dumps.ErrorOf("g/step0", path)))
        << path;
  }
}

}  // namespace
}  // namespace msitd::msit_command
