// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_value.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "client/foreign/write/writer/python_literal.h"

namespace msitd::write {
namespace {

std::string Json(RecordKind kind, std::string text,
                 DType dtype = DType::kUnspecified) {
  MsprobeRow row;
  row.kind = kind;
  row.dtype = dtype;
  row.text = std::move(text);
  JsonWriter out(0);
  WriteMsprobeValue(row, out);
  return out.Take();
}

TEST(MsprobeValueTest, ValuesOfKindOtherHaveTheEncodingOfMsprobe) {
  struct Case {
    const char* text;
    const char* json;
  };
  for (const Case& one : {
           Case{"slice(0, None, 2)",
                R"({"type": "slice", "value": [0, null, 2]})"},
           Case{"slice('a', -1, None)",
                R"({"type": "slice", "value": ["a", -1, null]})"},
           Case{"Ellipsis", R"({"type": "ellipsis", "value": "..."})"},
           Case{"torch.Size([2, 3])",
                R"({"type": "torch.Size", "value": [2, 3]})"},
           Case{"torch.Size([])", R"({"type": "torch.Size", "value": []})"},
           Case{"device(type='cuda', index=0)",
                R"({"type": "torch.device", "value": "cuda:0"})"},
           Case{"device(type='cpu')",
                R"({"type": "torch.device", "value": "cpu"})"},
           Case{"torch.channels_last",
                R"({"type": "torch.memory_format", "format": )"
                R"("channels_last"})"},
           Case{"RedOpType.SUM",
                R"({"type": "torch.distributed.ReduceOp", "value": )"
                R"("RedOpType.SUM"})"},
           Case{"{'type': 'torch.ProcessGroup', 'group_ranks': [0, 1], "
                "'group_id': '0a'}",
                R"({"type": "torch.ProcessGroup", "group_ranks": [0, 1], )"
                R"("group_id": "0a"})"},
           // The checksums of [0] and of [0, 1, 2, 3], as msprobe computes
           // them.
           Case{"{'type': 'torch.ProcessGroup', 'group_ranks': [0]}",
                R"({"type": "torch.ProcessGroup", "group_ranks": [0], )"
                R"("group_id": "553403f9"})"},
           Case{"{'type': 'torch.ProcessGroup', 'group_ranks': [0, 1, 2, 3]}",
                R"({"type": "torch.ProcessGroup", "group_ranks": )"
                R"([0, 1, 2, 3], "group_id": "67e9e248"})"},
           Case{"123456789012345678901234567890",
                R"({"type": "int", "value": 123456789012345678901234567890})"},
           Case{"{}", "{}"},
           Case{"[]", "[]"},
           Case{"()", "[]"},
           // For other values, the type is the name of their own type.
           Case{"slice(1, 2)",
                R"x({"type": "slice", "value": "slice(1, 2)"})x"},
           Case{"<torch.Work>",
                R"({"type": "<torch.Work>", "value": "<torch.Work>"})"},
           Case{"torch.strided",
                R"({"type": "torch.strided", "value": "torch.strided"})"},
       }) {
    EXPECT_EQ(Json(RecordKind::kOther, one.text), one.json) << one.text;
  }
}

TEST(MsprobeValueTest, ScalarsHaveTheirTypes) {
  constexpr RecordKind kNumber = RecordKind::kNumber;
  EXPECT_EQ(Json(kNumber, "True", DType::kBool),
            R"({"type": "bool", "value": true})");
  EXPECT_EQ(Json(kNumber, "-3", DType::kInt64),
            R"({"type": "int", "value": -3})");
  EXPECT_EQ(Json(kNumber, "1e-05", DType::kFloat64),
            R"({"type": "float", "value": 1e-05})");
  EXPECT_EQ(Json(kNumber, "-inf", DType::kFloat64),
            R"({"type": "float", "value": -Infinity})");
  EXPECT_EQ(Json(kNumber, "7", DType::kInt32),
            R"({"type": "int32", "value": 7})");
  EXPECT_EQ(Json(kNumber, "(1+2j)", DType::kComplex128),
            R"x({"type": "complex", "value": "(1+2j)"})x");
  EXPECT_EQ(Json(RecordKind::kText, "a"), R"({"type": "str", "value": "a"})");
  EXPECT_EQ(Json(RecordKind::kDType, "torch.half"),
            R"({"type": "torch.dtype", "value": "torch.half"})");
  EXPECT_EQ(Json(RecordKind::kNone, "None"), "null");
}

std::string Read(std::string_view text) {
  const auto literal = ParsePythonLiteral(text);
  if (!literal) return "none";
  JsonWriter out(0);
  WriteLiteral(*literal, out);
  return out.Take();
}

TEST(PythonLiteralTest, ConstantsBecomeJson) {
  EXPECT_EQ(Read("{'a': [1, -2.5, nan], \"b'\": (True, None), 'c': ('x',)}"),
            R"({"a": [1, -2.5, NaN], "b'": [true, null], "c": ["x"]})");
  EXPECT_EQ(Read(R"('a\\\'\n\t\x01"')"), R"("a\\'\n\t\u0001\"")");
}

TEST(PythonLiteralTest, AllElseIsNone) {
  for (const char* text :
       {"", "x", "[1", "[1,,2]", "[1 2]", "{'a' 1}", "{1: 2}", "'a", "'\\q'",
        "'\\x8'", "'\\xe4'", "01", "1 2", "[1]]", "- 1", "Non"}) {
    EXPECT_EQ(Read(text), "none") << text;
  }
  EXPECT_EQ(Read(std::string(1000, '[')), "none");
}

}  // namespace
}  // namespace msitd::write
