// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/file_name.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "client/foreign/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns "type op task/stream time+slice form", or "none".
std::string Ge(const std::string& text) {
  const auto name = ParseGeFileName(text);
  if (!name.has_value()) return "none";
  std::string out =
      fmt::format("{} {} {}", name->op_type, name->op_name, name->task);
  if (name->stream.has_value()) out += fmt::format("/{}", *name->stream);
  out += fmt::format(" {}", name->time);
  for (const int64_t part : name->slice) out += fmt::format("+{}", part);
  switch (name->form) {
    case GeForm::kDump:
      return out;
    case GeForm::kStatistics:
      return out + " statistics";
    case GeForm::kMinMax:
      return out + " min_max";
    case GeForm::kArray:
      return out + fmt::format(" {}:{}", IoName(name->io), name->index);
  }
  return out;
}

TEST(GeFileNameTest, SaysTypeOpTaskStreamAndTime) {
  const struct {
    const char* name;
    const char* what;
  } kCases[] = {
      {"Add.Add_2.44.6.17065969121619", "Add Add_2 44/6 17065969121619"},
      {"Sub.Sub.16.6.1756699200000006", "Sub Sub 16/6 1756699200000006"},
      {"ConcatV2D.ConcatV2.42.6.17065969121611",
       "ConcatV2D ConcatV2 42/6 17065969121611"},
      // Dots in the name of the op, with numbers between them.
      {"TransData.TransData_1.1.42.6.17005969121581",
       "TransData TransData_1.1 42/6 17005969121581"},
      {"Cast.a.1.b.2.42.6.17005969121581", "Cast a.1.b.2 42/6 17005969121581"},
      {"Cast..a..42.6.17005969121581", "Cast .a. 42/6 17005969121581"},
      // Names without a stream.
      {"Add.Add_2.44.17065969121619", "Add Add_2 44 17065969121619"},
      {"Add.model.Add.44.17065969121619", "Add model.Add 44 17065969121619"},
      {"Add.7.44.17065969121619", "Add 7 44 17065969121619"},
      // A slice of a task.
      {"Mul.Mul_1.13.6.1756699200000003.2.0.1.3",
       "Mul Mul_1 13/6 1756699200000003+2+0+1+3"},
      {"Mul.Mul_1.13.6.1756699200000003.2.0.1",
       "Mul Mul_1 13/6 1756699200000003+2+0+1"},
      {"Mul.a.b.13.1756699200000003.2.0.1.3",
       "Mul a.b 13 1756699200000003+2+0+1+3"},
      // Names of overflow dumps.
      {"Opdebug.Node_OpDebug.1.6.1756699200000003",
       "Opdebug Node_OpDebug 1/6 1756699200000003"},
      {"Add.Add_2Debug.44.6.17065969121619",
       "Add Add_2Debug 44/6 17065969121619"},
      // Short times.
      {"MatMul.mm.1.2.3", "MatMul mm 1/2 3"},
      {"MatMul.mm.1.2", "MatMul mm 1 2"},
      // Other forms.
      {"Sub.Sub.16.6.1756699200000006.csv",
       "Sub Sub 16/6 1756699200000006 statistics"},
      {"Sub.a.b.16.6.1756699200000006_min_max.npz",
       "Sub a.b 16/6 1756699200000006 min_max"},
      {"Sub.Sub.16.6.1756699200000006.2.0.1.3.csv",
       "Sub Sub 16/6 1756699200000006+2+0+1+3 statistics"},
      {"Sub.Sub.16.6.1756699200000006.output.0.npy",
       "Sub Sub 16/6 1756699200000006 output:0"},
      {"Sub.Sub.16.6.1756699200000006.input.12.npy",
       "Sub Sub 16/6 1756699200000006 input:12"},
  };
  for (const auto& [name, what] : kCases) EXPECT_EQ(Ge(name), what) << name;
}

TEST(GeFileNameTest, OtherNamesAreNone) {
  for (const char* name : {"",
                           ".",
                           "...",
                           "....",
                           "Add",
                           "Add.Add",
                           "Add.Add.1",
                           "Add.1.2",
                           "Add.Add.x.1",
                           "Add.Add.1.x",
                           ".Add.1.2.3",
                           "Add..1.2",
                           "notes.txt",
                           "Add.Add.1.2.-3",
                           "Add.Add.1.2. 3",
                           "Add.Add.1.2.3 ",
                           "Add.Add.1.2.99999999999999999999",
                           "Add.Add.1.2.0x3",
                           "a-b.INPUT.0.20240125031118787351.npy",
                           "Add.Add.1.2.3.npy",
                           "Add.Add.1.2.3.output.npy",
                           "Add.Add.1.2.3.weight.0.npy",
                           "Add.Add.1.2.3.npz",
                           "dynamo_original_graph_1.txt"}) {
    EXPECT_EQ(Ge(name), "none") << name;
  }
}

TEST(GeFileNameTest, OnlyALongTimeIsSure) {
  EXPECT_TRUE(IsSurelyGeFileName("Sub.Sub.16.6.1756699200000006"));
  EXPECT_TRUE(IsSurelyGeFileName("Sub.Sub.16.6.1756699200000006.csv"));
  EXPECT_TRUE(IsSurelyGeFileName("Sub.Sub.16.6.1756699200000006.2.0.1.3"));
  EXPECT_FALSE(IsSurelyGeFileName("Sub.Sub.16.6.17566992"));
  EXPECT_FALSE(IsSurelyGeFileName("1756699200000006"));
  EXPECT_FALSE(IsSurelyGeFileName("layers.0.weight.1.2"));
}

TEST(LongNamesTest, AreFoundByTheirNumber) {
  std::vector<absl::Status> problems;
  const LongNames names = ParseLongNames(
      "123,Add.a.1.2.3\n456,Sub.b,c.1.2.3\r\n\n123,Add.a.1.2.3\n7,x",
      &problems);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(names, ElementsAre(std::pair("123", "Add.a.1.2.3"),
                                 std::pair("456", "Sub.b,c.1.2.3"),
                                 std::pair("7", "x")));
}

TEST(LongNamesTest, LinesThatAreNoneHaveAReason) {
  const struct {
    std::string line;
    const char* reason;
  } kCases[] = {
      {"hash,name", "line 2: it is not a number with a name"},
      {"12", "line 2: it is not a number with a name"},
      {",x", "line 2: it is not a number with a name"},
      {"12,", "line 2: its name is not valid for a file"},
      {"12,../../secret", "line 2: its name is not valid for a file"},
      {std::string("12,a\0b", 6), "line 2: its name is not valid for a file"},
      {"12,\xff", "line 2: its name is not valid for a file"},
      {"12," + std::string(kLongNameBytesMax + 1, 'a'),
       "line 2: its name is not valid for a file"},
      {"1,other", "line 2: its number already has another name"},
  };
  for (const auto& [line, reason] : kCases) {
    std::vector<absl::Status> problems;
    const LongNames names =
        ParseLongNames("1,first\n" + line + "\n2,last\n", &problems);
    EXPECT_THAT(names,
                ElementsAre(std::pair("1", "first"), std::pair("2", "last")))
        << line;
    ASSERT_EQ(problems.size(), 1) << line;
    EXPECT_EQ(Message(problems[0]), reason);
  }
}

TEST(LongNamesTest, AreBounded) {
  std::string text;
  for (size_t i = 0; i <= kLongNamesMax; ++i) text += fmt::format("{},a\n", i);
  std::vector<absl::Status> problems;
  EXPECT_EQ(ParseLongNames(text, &problems).size(), kLongNamesMax);
  ASSERT_EQ(problems.size(), 1);
  EXPECT_EQ(problems[0].code(), absl::StatusCode::kResourceExhausted);

  problems.clear();
  EXPECT_THAT(ParseLongNames(std::string(3 * kLongNamesMax, 'x'), &problems),
              IsEmpty());
  EXPECT_EQ(problems.size(), 1);
  text.clear();
  for (size_t i = 0; i < 2 * kLongNamesMax; ++i) text += "x\n";
  problems.clear();
  EXPECT_THAT(ParseLongNames(text, &problems), IsEmpty());
  EXPECT_EQ(problems.size(), kLongNamesMax + 1);
}

TEST(LongNamesTest, ANumberMayHaveASuffix) {
  EXPECT_EQ(ParseLongNameNumber("123")->number, "123");
  EXPECT_EQ(ParseLongNameNumber("123.csv")->suffix, ".csv");
  EXPECT_EQ(ParseLongNameNumber("123_min_max.npz")->suffix, "_min_max.npz");
  for (const char* name :
       {"", "x", "12x", "123.txt", "-1", ".csv", "123456789012345678901"}) {
    EXPECT_FALSE(ParseLongNameNumber(name).has_value()) << name;
  }
}

// Returns "op io:index time form", or "none".
std::string Fx(const std::string& text) {
  const auto name = ParseFxFileName(text);
  if (!name.has_value()) return "none";
  return fmt::format("{} {}:{} {}{}", name->op, IoName(name->io), name->index,
                     name->time, name->is_min_max ? " min_max" : "");
}

TEST(FxFileNameTest, SaysNodeTargetIoAndIndex) {
  const struct {
    const char* name;
    const char* what;
  } kCases[] = {
      {"mm-aten.mm.default.OUTPUT.0.20240125031118787351.npy",
       "mm-aten.mm.default output:0 20240125031118787351"},
      {"mm-aten.mm.default.INPUT.10.20240125031118787351.npy",
       "mm-aten.mm.default input:10 20240125031118787351"},
      {"cat-aten.cat.default.INPUT.0.1.20240125031118787351.npy",
       "cat-aten.cat.default input:0.1 20240125031118787351"},
      {"cat-aten.cat.default.INPUT.0.1.20240125031118787351_min_max.npy",
       "cat-aten.cat.default input:0.1 20240125031118787351 min_max"},
      {"a.OUTPUT.1-b.INPUT.2.20240125031118787351.npy",
       "a.OUTPUT.1-b input:2 20240125031118787351"},
  };
  for (const auto& [name, what] : kCases) EXPECT_EQ(Fx(name), what) << name;
}

TEST(FxFileNameTest, OtherNamesAreNone) {
  for (const char* name :
       {"", ".npy", "_min_max.npy", "a.npy", "a.0.20240125031118787351.npy",
        "a.INPUT.20240125031118787351.npy",
        "a.INPUT.x.20240125031118787351.npy",
        "a.INPUT..20240125031118787351.npy",
        "a.INPUT.0.1.2.3.4.5.6.7.8.20240125031118787351.npy",
        ".INPUT.0.20240125031118787351.npy", "a.INPUT.0.1.npy",
        "a.input.0.20240125031118787351.npy", "a.INPUT.0.20240125031118787351",
        "a.INPUT.0.2024012503111878735x.npy",
        "a.INPUT.0.20240125031118787351.npz"}) {
    EXPECT_EQ(Fx(name), "none") << name;
  }
}

TEST(FolderNameTest, RanksHaveAFolder) {
  const auto folder = ParseRankFolder("worldsize16_global_rank3");
  ASSERT_TRUE(folder.has_value());
  EXPECT_EQ(folder->world_size, 16);
  EXPECT_EQ(folder->rank, 3);
  for (const char* name :
       {"worldsize16", "worldsize_global_rank3", "worldsize1_global_rank",
        "worldsize1_global_rank3x", "worldsize1_global_rank9999999",
        "worldsize99999999999999999999_global_rank0", "rank3", ""}) {
    EXPECT_FALSE(ParseRankFolder(name).has_value()) << name;
  }
}

TEST(FolderNameTest, TimesAndGraphsAreKnown) {
  EXPECT_TRUE(IsTimeFolder("20250901120005"));
  EXPECT_FALSE(IsTimeFolder("2025090112000"));
  EXPECT_FALSE(IsTimeFolder("dump_202509011"));
  EXPECT_TRUE(IsGmFolder("gm_20240125031118787351_dump"));
  EXPECT_FALSE(IsGmFolder("gm_20240125031118787351"));
  EXPECT_TRUE(IsGraphText("dynamo_original_graph_1_rank_0_pid_2_ts_3.txt"));
  EXPECT_TRUE(IsGraphText("dynamo_optimized_graph_1_rank_0_pid_2_ts_3.txt"));
  EXPECT_FALSE(IsGraphText("dynamo_original_graph_1_rank_0_pid_2_ts_3.py"));
  EXPECT_EQ(RankOfGraphText("dynamo_original_graph_1_rank_10_pid_2_ts_3.txt"),
            10);
  EXPECT_EQ(RankOfGraphText("dynamo_original_graph_17065969118878_test.txt"),
            std::nullopt);
}

}  // namespace
}  // namespace msitd::trees
