// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace msitd::write {
namespace {

TEST(JsonWriterTest, FloatsAreAsPythonWritesThem) {
  EXPECT_EQ(PythonFloat(1), "1.0");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(0.1), "0.1");
  EXPECT_EQ(PythonFloat(1e-05), "1e-05");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(123456789012345.0), "123456789012345.0");
  EXPECT_EQ(PythonFloat(0.30000001192092896), "0.30000001192092896");
  EXPECT_EQ(PythonFloat(std::nan("")), "nan");
  EXPECT_EQ(PythonFloat(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(JsonWriterTest, IndentsAsPythonDoes) {
  JsonWriter out(1);
  out.BeginObject()
      .Field("a", 1)
      .Key("b")
      .BeginList()
      .Number(int64_t{2})
      .Null();
  out.EndList().Key("c").BeginObject().EndObject().Key("d").BeginList();
  out.EndList().Key("e").Number(std::nan("")).EndObject();
  EXPECT_EQ(out.Take(),
            "{\n \"a\": 1,\n \"b\": [\n  2,\n  null\n ],\n \"c\": {},\n"
            " \"d\": [],\n \"e\": NaN\n}");
}

TEST(JsonWriterTest, OneLine) {
  JsonWriter out(0);
  out.BeginObject().Field("a", "x").Key("b").BeginList().Bool(true);
  out.Number(-std::numeric_limits<double>::infinity()).EndList().EndObject();
  EXPECT_EQ(out.Take(), R"({"a": "x", "b": [true, -Infinity]})");
}

TEST(JsonWriterTest, WhatJsonLacksIsATextOnRequest) {
  JsonWriter out(0, /*is_legal=*/true);
  out.BeginList().Number(std::nan("")).PythonNumber("-Infinity");
  out.PythonNumber("1e-05").Number(2.5).EndList();
  EXPECT_EQ(out.Take(), R"(["NaN", "-Infinity", 1e-05, 2.5])");
}

TEST(JsonWriterTest, TextsAreAscii) {
  JsonWriter out(0);
  out.Text("\"\\\n\t\x01\x7f\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82\xff");
  EXPECT_EQ(out.Take(),
            "\"\\\"\\\\\\n\\t\\u0001\\u007f\\u00e4\\u20ac\\ud83d\\ude42"
            "\\ufffd\"");
}

}  // namespace
}  // namespace msitd::write
