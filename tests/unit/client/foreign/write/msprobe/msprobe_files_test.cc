// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_files.h"

#include <gtest/gtest.h>

#include <sstream>

namespace msitd::write {
namespace {

constexpr size_t kMax = 100;

// Returns the document with one record, `Torch.exp.0.forward`.
std::string Dump(const std::string& record) {
  return R"({"data": {"Torch.exp.0.forward": )" + record + "}}";
}

std::string Leaf(const std::string& more) {
  return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1])" +
         more + "}";
}

bool CanRead(const std::string& text, MsprobeFiles& files) {
  std::istringstream in(text);
  return AddMsprobeFiles(in, kMax, files).ok();
}

MsprobeRow Row(const std::string& file) {
  MsprobeRow row;
  row.name = {"Torch.exp.0.forward", names::MsprobePart::kOutput, "0"};
  row.file = file;
  return row;
}

TEST(MsprobeFilesTest, EachTensorHasItsFile) {
  MsprobeFiles files;
  ASSERT_TRUE(CanRead(
      Dump(R"({"output": [)" + Leaf(R"(, "data_name": "x.npy")") + "," +
           Leaf(R"(, "data_name": "-1")") + R"(, {"type": "int"}, null]})"),
      files));
  EXPECT_EQ(files, (MsprobeFiles{{"Torch.exp.0.forward.output.0", "x.npy"},
                                 {"Torch.exp.0.forward.output.1", ""}}));
}

TEST(MsprobeFilesTest, NumbersOfPythonAreRead) {
  MsprobeFiles files;
  EXPECT_TRUE(CanRead(
      Dump(R"({"x": [NaN, -Infinity,Infinity, 1e40, "I \\\" NaN"]})"), files));
  EXPECT_TRUE(CanRead(R"({"data": {}, "x": "NaN\\", "y": NaN})", files));
}

TEST(MsprobeFilesTest, DepthIsBounded) {
  MsprobeFiles files;
  EXPECT_FALSE(CanRead(std::string(1000, '[') + std::string(1000, ']'), files));
}

TEST(MsprobeFilesTest, GradientsOfOldReleasesHaveOurNames) {
  MsprobeFiles files;
  ASSERT_TRUE(CanRead(R"({"data": {"Module.f.F.parameters_grad": {"w": [)" +
                          Leaf(R"(, "data_name": "a.pt")") + "]}}}",
                      files));
  EXPECT_EQ(files, (MsprobeFiles{{"Module.f.F.parameters_grad.0.w", "a.pt"}}));
}

TEST(MsprobeFilesTest, WhatCannotBeSaidOfTensorsIsRefused) {
  const std::string named = Leaf(R"(, "data_name": "a.pt")");
  for (const std::string& text :
       {std::string(), std::string("{"), Dump("{}") + "x",
        Dump(R"({"none_such": [)" + named + "]}"),
        Dump(R"({"output": [{"data_name": "a.pt"}]})"),
        Dump(R"({"output": [)" + named + R"(], "output": [)" + named + "]}"),
        R"({"data": {"no record": {"output": [)" + named + "]}}}"}) {
    MsprobeFiles files;
    EXPECT_FALSE(CanRead(text, files)) << text;
  }
  MsprobeFiles files;
  std::istringstream two(Dump(R"({"output": [)" + named + "," + named + "]}"));
  EXPECT_TRUE(absl::IsResourceExhausted(AddMsprobeFiles(two, 1, files)));
}

TEST(MsprobeFilesTest, RowsAndFilesAreTheSame) {
  const std::string name = "Torch.exp.0.forward.output.0";
  EXPECT_TRUE(FilesFit({{name, "a.pt"}}, {Row("a.pt")}));
  EXPECT_TRUE(FilesFit({{name, ""}}, {Row("")}));
  EXPECT_TRUE(FilesFit({{name, ""}}, {}));
  EXPECT_FALSE(FilesFit({{name, "a.npy"}}, {Row("a.pt")}));
  EXPECT_FALSE(FilesFit({{name, "a.pt"}}, {Row("")}));
  EXPECT_FALSE(FilesFit({{name, "a.pt"}}, {}));
  EXPECT_FALSE(FilesFit({}, {Row("a.pt")}));
  EXPECT_FALSE(FilesFit({}, {Row("")}));
  EXPECT_FALSE(FilesFit({{name, "a.pt"}}, {Row("a.pt"), Row("a.pt")}));
  MsprobeRow value = Row("");
  value.kind = RecordKind::kNumber;
  EXPECT_TRUE(FilesFit({}, {value}));
}

}  // namespace
}  // namespace msitd::write
