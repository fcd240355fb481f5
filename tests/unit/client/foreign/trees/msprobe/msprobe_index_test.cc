// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_index.h"

#include <gtest/gtest.h>

#include "protos/status/status.h"
#include "tests/unit/client/foreign/trees/made_tree.h"

namespace msitd::trees {
namespace {

using Source = MsprobeIndex::Source;

constexpr char kDump[] = R"({"task": "tensor", "level": "mix", "data": {
  "Functional.f.0.forward": {
    "input_args": [{"type": "torch.Tensor", "dtype": "torch.float32",
                    "shape": [2], "Max": 0.1, "Min": NaN, "Mean": 1.0,
                    "Norm": 2.0, "requires_grad": false,
                    "data_name": "Functional.f.0.forward.input.0.pt"},
                   {"type": "int", "value": 3}, null],
    "input_kwargs": {"mask": {"type": "torch.Tensor", "dtype": "torch.int64",
                     "shape": [], "Max": 9007199254740993,
                     "Min": 9007199254740993, "Mean": null, "Norm": null,
                     "requires_grad": false, "data_name": "m.pt"}},
    "output": []}}})";

names::MsprobeKey Input(const std::string& index) {
  return {"Functional.f", 0, Io::kInput, index};
}

TEST(MsprobeIndexTest, KeepsStatisticsAndFilesAsTheyWereWritten) {
  const MadeTree made;
  made.Write("dump.json", kDump);
  const auto index = MsprobeIndex::Read(made.path(), Source::kDump);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->task(), "tensor");
  EXPECT_FALSE(index->has_checksums());
  EXPECT_FALSE(index->has_stacks());
  EXPECT_EQ(index->size(), 2U);
  ASSERT_NE(index->Find(Input("0")), nullptr);
  EXPECT_EQ(index->Find(Input("0"))->file, "Functional.f.0.forward.input.0.pt");
  EXPECT_EQ(index->Find(Input("0"))->statistics,
            R"({"max": 0.1, "min": "nan", "mean": 1.0, "l2_norm": 2.0})");
  ASSERT_NE(index->Find(Input("mask")), nullptr);
  EXPECT_EQ(index->Find(Input("mask"))->statistics,
            R"({"max": 9007199254740993, "min": 9007199254740993})");
  // Values have neither.
  EXPECT_EQ(index->Find(Input("1")), nullptr);
  EXPECT_EQ(index->Find(Input("2")), nullptr);
}

TEST(MsprobeIndexTest, FramesKeepTheirSourceLines) {
  const MadeTree made;
  made.Write("dump.json", kDump);
  made.Write("stack.json",
             R"json({"0": [["Functional.f.0.forward"],
                 ["File a.py, line 3, in main, \n it's = f()"]]})json");
  const auto index = MsprobeIndex::Read(made.path(), Source::kDump);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_TRUE(index->has_stacks());
  EXPECT_EQ(index->StackOf("Functional.f.0.forward"),
            R"json(["File a.py, line 3, in main, \n it's = f()"])json");
  EXPECT_EQ(index->StackOf("Functional.f.0.backward"), "");
}

TEST(MsprobeIndexTest, ChecksumsAreFound) {
  for (const auto& [md5, expected] :
       {std::pair("\"0badcafe\"", true), std::pair("null", false)}) {
    const MadeTree made;
    made.Write("dump.json",
               fmt::format(
                   R"({{"task": "statistics", "data": {{"Torch.f.0.forward":
                   {{"input_args": [{{"type": "torch.Tensor",
                   "dtype": "torch.float32", "shape": [1], "md5": {}}}]}}}}}})",
                   md5));
    const auto index = MsprobeIndex::Read(made.path(), Source::kDump);
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(index->has_checksums(), expected);
  }
}

TEST(MsprobeIndexTest, ADamagedFileIsAnErrorOnlyAtItsBeginning) {
  const MadeTree made;
  EXPECT_TRUE(absl::IsNotFound(
      MsprobeIndex::Read(made.path(), Source::kDump).status()));
  for (const char* text :
       {"", "[]", R"({"task": "tensor"})", R"({"data": 3})"}) {
    made.Write("dump.json", text);
    EXPECT_FALSE(MsprobeIndex::Read(made.path(), Source::kDump).ok()) << text;
  }
  // The import reports the rest.
  const std::string whole = kDump;
  for (size_t size = whole.find("Functional"); size < whole.size(); size += 7) {
    made.Write("debug.json", whole.substr(0, size));
    const auto index = MsprobeIndex::Read(made.path(), Source::kDebug);
    if (!index.ok()) continue;
    EXPECT_LE(index->size(), 2U);
  }
}

}  // namespace
}  // namespace msitd::trees
