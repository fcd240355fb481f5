// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "client/foreign/trees/msprobe/msprobe_value.h"
#include "protos/status/status.h"
#include "tests/unit/client/foreign/trees/json_of.h"

namespace msitd::trees {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> LeafNames(const MsprobeLeaves& leaves) {
  std::vector<std::string> out;
  for (const MsprobeLeaf& leaf : leaves.leaves) {
    out.push_back(MsprobeFileName(leaf.name));
  }
  return out;
}

std::vector<std::string> Reasons(const MsprobeLeaves& leaves) {
  std::vector<std::string> out;
  for (const absl::Status& problem : leaves.problems) {
    out.emplace_back(Message(problem));
  }
  return out;
}

constexpr char kTensor[] =
    R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3],
        "Max": 1.50, "Min": -Infinity, "Mean": NaN, "Norm": null,
        "requires_grad": true})";

TEST(MsprobeRecordTest, LeavesComeInTheOrderOfTheRecord) {
  const JsonValue record = JsonOf(fmt::format(
      R"({{"input_args": [{0}, [null, {0}]],
           "input_kwargs": {{"mask": {0}, "names": {{"a": {{"type": "int",
             "value": 1}}}}}},
           "output": [{0}], "parameters": {{"weight": {0}}},
           "is_recompute": false}})",
      kTensor));
  const MsprobeLeaves found =
      LeavesOfMsprobe("Module.a.Linear.forward.3", record);
  EXPECT_THAT(found.problems, IsEmpty());
  EXPECT_THAT(LeafNames(found),
              ElementsAre("Module.a.Linear.forward.3.input.0",
                          "Module.a.Linear.forward.3.input.1.0",
                          "Module.a.Linear.forward.3.input.1.1",
                          "Module.a.Linear.forward.3.kwargs.mask",
                          "Module.a.Linear.forward.3.kwargs.names.a",
                          "Module.a.Linear.forward.3.output.0",
                          "Module.a.Linear.forward.3.parameters.weight"));
  const MsprobeLeaf& tensor = found.leaves[0];
  EXPECT_EQ(tensor.kind, RecordKind::kStatistics);
  EXPECT_EQ(tensor.text, R"({"max": 1.50, "min": "-inf", "mean": "nan"})");
  EXPECT_EQ(tensor.dtype, DType::kFloat32);
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_EQ(tensor.requires_grad, true);
  EXPECT_EQ(tensor.file, "");
  EXPECT_EQ(found.leaves[1].kind, RecordKind::kNone);
}

TEST(MsprobeRecordTest, EmptyPartsHaveNoLeaves) {
  const MsprobeLeaves found = LeavesOfMsprobe(
      "Tensor.add.0.forward",
      JsonOf(R"({"input_args": [], "input_kwargs": {}, "output": [{}, []]})"));
  EXPECT_THAT(LeafNames(found), ElementsAre("Tensor.add.0.forward.output.0",
                                            "Tensor.add.0.forward.output.1"));
  EXPECT_EQ(found.leaves[0].text, "{}");
  EXPECT_EQ(found.leaves[1].text, "[]");
}

TEST(MsprobeRecordTest, GradientsOfParametersAreListsOfOne) {
  const MsprobeLeaves found = LeavesOfMsprobe(
      "Module.a.Linear.parameters_grad.0",
      JsonOf(
          fmt::format(R"({{"weight": [{0}], "bias": [null, {0}]}})", kTensor)));
  EXPECT_THAT(LeafNames(found),
              ElementsAre("Module.a.Linear.parameters_grad.0.weight",
                          "Module.a.Linear.parameters_grad.0.bias.0",
                          "Module.a.Linear.parameters_grad.0.bias.1"));
}

TEST(MsprobeRecordTest, WhatWasSavedMayBeAnything) {
  EXPECT_THAT(LeafNames(LeavesOfMsprobe("y.0.debug", JsonOf(kTensor))),
              ElementsAre("y.0.debug"));
  EXPECT_THAT(LeafNames(LeavesOfMsprobe(
                  "y_grad.1.debug",
                  JsonOf(fmt::format(R"({{"a": [{}, null]}})", kTensor)))),
              ElementsAre("y_grad.1.debug.a.0", "y_grad.1.debug.a.1"));
}

TEST(MsprobeRecordTest, FilesAreTakenInEitherOrder) {
  for (const char* order : {R"("md5": "00c0ffee", "data_name": "x.pt")",
                            R"("data_name": "x.pt", "md5": "00c0ffee")"}) {
    const MsprobeLeaves found = LeavesOfMsprobe(
        "y.0.debug",
        JsonOf(fmt::format(R"({{"type": "torch.Tensor", "dtype": "torch.bool",
                "shape": [], "Max": true, "Min": false, {}}})",
                           order)));
    ASSERT_EQ(found.leaves.size(), 1);
    EXPECT_EQ(found.leaves[0].file, "x.pt");
    EXPECT_EQ(found.leaves[0].text,
              R"({"max": true, "min": false, "crc32": "00c0ffee"})");
  }
}

TEST(MsprobeRecordTest, ChecksumsSayWhatTheyAre) {
  struct Case {
    const char* md5;
    const char* text;
  };
  for (const Case& one : {
           Case{R"("0x00000000000000ff")", R"({"xor": "0x00000000000000ff"})"},
           Case{R"("00000000")", R"({"crc32": "00000000"})"},
           Case{"-9223372036854775808", R"({"xor": -9223372036854775808})"},
           Case{"2.5", R"({"xor": 2.5})"},
           Case{"null", "{}"},
           Case{R"("not a sum")", "{}"},
       }) {
    EXPECT_EQ(StatisticsOfMsprobe(JsonOf(fmt::format(
                  R"({{"type": "t", "dtype": "d", "shape": [], "md5": {}}})",
                  one.md5))),
              one.text);
  }
}

TEST(MsprobeRecordTest, ATypeThatWeLackIsWrittenOut) {
  const MsprobeLeaves found = LeavesOfMsprobe(
      "y.0.debug",
      JsonOf(R"({"type": "numpy.ndarray", "dtype": "<U3", "shape": [2]})"));
  ASSERT_EQ(found.leaves.size(), 1);
  EXPECT_EQ(found.leaves[0].kind, RecordKind::kOther);
  EXPECT_EQ(found.leaves[0].text,
            "{'type': 'numpy.ndarray', 'dtype': '<U3', 'shape': [2]}");
}

TEST(MsprobeRecordTest, WhatIsNotUnderstoodIsSaid) {
  EXPECT_THAT(Reasons(LeavesOfMsprobe("optimizer", JsonOf("{}"))),
              ElementsAre("it is not the name of a record"));
  EXPECT_THAT(Reasons(LeavesOfMsprobe("F.a.0.forward", JsonOf("[]"))),
              ElementsAre("it is not an object"));
  EXPECT_THAT(
      Reasons(LeavesOfMsprobe("F.a.0.forward",
                              JsonOf(R"({"output": 3, "input_args": null,
                                     "extra": 1})"))),
      ElementsAre("its output is 3", "'extra' is not a part of a record"));
}

TEST(MsprobeValueTest, ValuesAreWrittenAsPythonDoes) {
  struct Case {
    const char* json;
    RecordKind kind;
    const char* text;
  };
  for (const Case& one : {
           Case{R"({"type": "int", "value": -3})", RecordKind::kNumber, "-3"},
           Case{R"({"type": "float", "value": Infinity})", RecordKind::kNumber,
                "inf"},
           Case{R"({"type": "bool", "value": true})", RecordKind::kNumber,
                "True"},
           Case{R"({"type": "str", "value": "none"})", RecordKind::kText,
                "none"},
           Case{R"({"type": "int32", "value": 7})", RecordKind::kNumber, "7"},
           Case{R"({"type": "str_", "value": "x"})", RecordKind::kText, "x"},
           Case{R"({"type": "slice", "value": [0, null, 2]})",
                RecordKind::kOther, "slice(0, None, 2)"},
           Case{R"({"type": "ellipsis", "value": "..."})", RecordKind::kOther,
                "Ellipsis"},
           Case{R"({"type": "torch.Size", "value": [2, 3]})",
                RecordKind::kOther, "torch.Size([2, 3])"},
           Case{R"({"type": "torch.dtype", "value": "torch.float16"})",
                RecordKind::kDType, "torch.float16"},
           Case{R"({"type": "torch.device", "value": "cuda:0"})",
                RecordKind::kOther, "device(type='cuda', index=0)"},
           Case{R"({"type": "torch.device", "value": "cpu:None"})",
                RecordKind::kOther, "device(type='cpu')"},
           Case{R"({"type": "torch.memory_format",
                    "format": "contiguous_format"})",
                RecordKind::kOther, "torch.contiguous_format"},
           Case{R"({"type": "torch.distributed.ReduceOp",
                    "value": "RedOpType.SUM"})",
                RecordKind::kOther, "RedOpType.SUM"},
           Case{R"({"type": "torch.ProcessGroup", "group_ranks": [0, 1],
                    "group_id": "0a"})",
                RecordKind::kOther,
                "{'type': 'torch.ProcessGroup', 'group_ranks': [0, 1], "
                "'group_id': '0a'}"},
           Case{R"({"type": "torch.dtype", "value": null})", RecordKind::kOther,
                "{'type': 'torch.dtype', 'value': None}"},
       }) {
    const PythonValue value = DescribeMsprobe(JsonOf(one.json));
    EXPECT_EQ(value.kind, one.kind) << one.json;
    EXPECT_EQ(value.text, one.text);
  }
}

}  // namespace
}  // namespace msitd::trees
