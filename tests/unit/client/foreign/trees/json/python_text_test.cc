// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/json/python_text.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/client/foreign/trees/json_of.h"

namespace msitd::trees {
namespace {

TEST(PythonTextTest, ScalarsAreTheKindsThatTheyAreInPython) {
  struct Case {
    const char* json;
    RecordKind kind;
    const char* text;
  };
  for (const Case& one : {
           Case{"true", RecordKind::kNumber, "True"},
           Case{"false", RecordKind::kNumber, "False"},
           Case{"null", RecordKind::kNone, "None"},
           Case{"7", RecordKind::kNumber, "7"},
           Case{"1e-05", RecordKind::kNumber, "1e-05"},
           Case{"NaN", RecordKind::kNumber, "nan"},
           Case{"-Infinity", RecordKind::kNumber, "-inf"},
           Case{"9223372036854775807", RecordKind::kNumber,
                "9223372036854775807"},
           Case{"9223372036854775808", RecordKind::kOther,
                "9223372036854775808"},
           Case{"\"it's\"", RecordKind::kText, "it's"},
           Case{"\"a\\u0000b\"", RecordKind::kText, "a\\x00b"},
           Case{"[]", RecordKind::kOther, "[]"},
           Case{"{\"a\": [1, null]}", RecordKind::kOther, "{'a': [1, None]}"},
       }) {
    const PythonValue value = DescribeJson(JsonOf(one.json));
    EXPECT_EQ(value.kind, one.kind) << one.json;
    EXPECT_EQ(value.text, one.text);
  }
}

TEST(PythonTextTest, QuotesAreThoseOfPython) {
  EXPECT_EQ(ReprOfText("plain"), "'plain'");
  EXPECT_EQ(ReprOfText("it's"), "\"it's\"");
  EXPECT_EQ(ReprOfText("it's \"so\""), "'it\\'s \"so\"'");
  EXPECT_EQ(ReprOfText("a\\b\n\t\r\x01\x7f"), "'a\\\\b\\n\\t\\r\\x01\\x7f'");
  EXPECT_EQ(ReprOfText(std::string_view("\0", 1)), "'\\x00'");
  EXPECT_EQ(ReprOfText("\u00e4"), "'\u00e4'");
}

TEST(PythonTextTest, TypesAreKnownInEachSpelling) {
  EXPECT_EQ(ParseTorchDType("torch.bfloat16"), DType::kBfloat16);
  EXPECT_EQ(ParseTorchDType("int64"), DType::kInt64);
  EXPECT_EQ(ParseTorchDType("Float32"), DType::kFloat32);
  EXPECT_EQ(ParseTorchDType("torch.qint8"), std::nullopt);
}

}  // namespace
}  // namespace msitd::trees
