// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/mapping_parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "protos/base/limits.h"
#include "protos/base/mapping_limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<TensorMapping> Parse(std::string_view text,
                                    size_t piece_bytes = 1 << 20) {
  MappingParser parser;
  for (; !text.empty();
       text.remove_prefix(std::min(piece_bytes, text.size()))) {
    MSITD_RETURN_IF_ERROR(parser.Append(text.substr(0, piece_bytes)));
  }
  return parser.Finish();
}

std::string ErrorOf(std::string_view text) {
  const absl::Status status = Parse(text).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
  return std::string(Message(status));
}

// Returns a line that pairs output 0 of two ops.
std::string Line(std::string_view target, std::string_view golden) {
  return fmt::format(R"({{"target":{{"op":"{}","io":"output","index":0}},)"
                     R"("golden":{{"op":"{}","io":"output","index":0}}}})"
                     "\n",
                     target, golden);
}

constexpr char kTwoLines[] =
    R"({"target":{"op":"T","io":"output","index":0,"call":2},)"
    R"("golden":{"op":"g","io":"input","index":"1.0"},"reason":"fused"})"
    "\r\n\n"
    R"({"golden": {"op": "h\u00e9"}, "target": {"op": "U"}})";

TEST(MappingParserTest, LinesBecomePairsHoweverTheyAreCut) {
  for (const size_t piece_bytes : {1, 7, 64, 1 << 20}) {
    const auto mapping = Parse(kTwoLines, piece_bytes);
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    ASSERT_EQ(mapping->pair_count(), 2u);
    const MappedPair& first = mapping->pair(0);
    EXPECT_EQ(first.line, 1);
    EXPECT_EQ(first.reason, "fused");
    EXPECT_EQ(first.target.index, "0");
    EXPECT_EQ(first.golden.io, Io::kInput);
    EXPECT_EQ(first.golden.index, "1.0");
    EXPECT_EQ(first.golden.call, 2);
    const MappedPair& second = mapping->pair(1);
    EXPECT_EQ(second.line, 3);
    EXPECT_EQ(second.reason, kByTheMapping);
    EXPECT_TRUE(second.target.is_whole_op());
    EXPECT_EQ(second.golden.op, "h\u00e9");
  }
}

TEST(MappingParserTest, TargetsAreThereOnceAndGoldensAsOftenAsWanted) {
  const auto mapping = Parse(Line("a", "g") + Line("b", "g"));
  EXPECT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(ErrorOf(Line("a", "g") + "\n" + Line("b", "g") + Line("a", "h")),
            "line 4: line 1 has the same target");
  // The number and the text denote the same index.
  EXPECT_THAT(ErrorOf(Line("a", "g") +
                      R"({"target":{"op":"a","io":"output","index":"0"},)"
                      R"("golden":{"op":"g","io":"output","index":1}})"),
              HasSubstr("line 2: line 1 has"));
}

TEST(MappingParserTest, OneSideAloneBelongsToNone) {
  const auto mapping =
      Parse("{\"target\":{\"op\":\"T\"}}\n" + Line("a", "g") +
            "{\"golden\":{\"op\":\"g\"},\"reason\":\"fused\"}");
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_TRUE(mapping->pair(0).is_alone());
  EXPECT_FALSE(mapping->pair(1).is_alone());
  TensorKey key;
  key.op = "T";
  key.io = Io::kInput;
  key.index = "0";
  EXPECT_EQ(mapping->Find(key), 0u);
  key.op = "g";
  EXPECT_EQ(mapping->FindGolden(key), 2u);
  // An entry for the tensor takes precedence over an entry for the op.
  key.io = Io::kOutput;
  EXPECT_EQ(mapping->FindGolden(key), 1u);
  EXPECT_THAT(
      ErrorOf("{\"target\":{\"op\":\"T\"}}\n{\"target\":{\"op\":\"T\"}}"),
      HasSubstr("line 2: line 1 has the same target"));
  EXPECT_THAT(ErrorOf("{\"golden\":{\"op\":\"g\"}}\n"
                      "{\"golden\":{\"op\":\"g\"},\"target\":{\"op\":\"T\"}}"),
              HasSubstr("line 2: line 1 has the same golden tensor"));
}

TEST(MappingParserTest, BadLinesAreNamed) {
  const std::string whole = R"({"op":"g"})";
  const auto pair = [](std::string_view target, std::string_view golden) {
    return fmt::format(R"({{"target":{},"golden":{}}})", target, golden);
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "has no pair"},
      {"\n \r\n\t", "has no pair"},
      {"{", "line 1: is not the JSON"},
      {"[]", "line 1: is not the JSON"},
      {"null", "line 1: "},
      {"\"a\"", "line 1: is not the JSON"},
      {pair(whole, whole) + pair(whole, whole), "line 1: is not the JSON"},
      {R"({"targets":{"op":"a"}})", "line 1: is not the JSON"},
      {pair(R"({"op":"a","x":1})", whole), "line 1: is not the JSON"},
      {"{}", "line 1: has neither a target nor a golden tensor"},
      {R"({"target":{"op":"a"},"golden":{}})", "line 1: golden: op: is empty"},
      {pair(R"({"op":""})", whole), "line 1: target: op: is empty"},
      {pair(R"({"op":1})", whole), "line 1: "},
      {pair(R"({"op":"a\u0000b"})", whole), "line 1: target: op: "},
      {pair(R"({"op":"a","io":"output"})", whole),
       "line 1: target: io and index"},
      {pair(R"({"op":"a","index":0})", whole), "line 1: target: io and index"},
      {pair(R"({"op":"a","io":"outputs","index":0})", whole),
       "line 1: target: io: \"outputs\""},
      {pair(R"({"op":"a","io":"unspecified","index":0})", whole),
       "line 1: target: io: "},
      {pair(R"({"op":"a","io":"output","index":0.5})", whole),
       "line 1: target: index: "},
      {pair(R"({"op":"a","io":"output","index":-1})", whole),
       "line 1: target: index: "},
      {pair(R"({"op":"a","io":"output","index":1e300})", whole),
       "line 1: target: index: "},
      {pair(R"({"op":"a","io":"output","index":[0]})", whole),
       "line 1: target: index: "},
      {pair(R"({"op":"a","io":"output","index":null})", whole),
       "line 1: target: index: "},
      {pair(R"({"op":"a","call":-1})", whole), "line 1: target: call: "},
      {pair(R"({"op":"a","call":4294967296})", whole), "line 1: "},
      {pair(R"({"op":"a","io":"output","index":0})", whole),
       "line 1: target and golden need"},
      {"{\"target\":{\"op\":\"\xff\"}}", "line 1: is not UTF-8"},
      {std::string("{\0}", 3), "line 1: is not the JSON"},
      {std::string(500, '['), "line 1: is not the JSON"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ErrorOf(text), StartsWith(message)) << text;
  }
}

TEST(MappingParserTest, EverythingIsBounded) {
  const std::string longest(kOpBytesMax, 'a');
  EXPECT_TRUE(Parse(Line(longest, longest)).ok());
  EXPECT_THAT(ErrorOf(Line(longest + "a", "g")), HasSubstr("target: op: "));
  EXPECT_THAT(ErrorOf("\n" + std::string(kMappingLineBytesMax + 1, ' ')),
              StartsWith("line 2: more than"));
  EXPECT_TRUE(
      Parse(std::string(kMappingLineBytesMax, ' ') + "\n" + Line("a", "g"))
          .ok());
  const auto with_reason = [](size_t bytes) {
    return fmt::format(
        R"({{"target":{{"op":"a"}},"golden":{{"op":"g"}},"reason":"{}"}})",
        std::string(bytes, 'r'));
  };
  EXPECT_TRUE(Parse(with_reason(kMappingReasonBytesMax)).ok());
  EXPECT_THAT(ErrorOf(with_reason(kMappingReasonBytesMax + 1)),
              StartsWith("line 1: reason: "));
  const auto with_index = [](size_t bytes) {
    return fmt::format(R"({{"target":{{"op":"a","io":"state","index":"{0}"}},)"
                       R"("golden":{{"op":"g","io":"state","index":"{0}"}}}})",
                       std::string(bytes, 'i'));
  };
  EXPECT_TRUE(Parse(with_index(kIndexBytesMax)).ok());
  EXPECT_THAT(ErrorOf(with_index(kIndexBytesMax + 1)),
              StartsWith("line 1: target: index: "));
}

TEST(TensorMappingTest, PairsAreBounded) {
  TensorMapping mapping;
  for (size_t i = 0; i < kMappingPairsMax; ++i) {
    ASSERT_TRUE(mapping.Add({{std::to_string(i)}, {"g"}, "", 1}).ok());
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(mapping.Add({{"one more"}, {"g"}, "", 2})));
}

}  // namespace
}  // namespace msitd::compare
