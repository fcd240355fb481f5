// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_nano.h"

#include <gtest/gtest.h>

#include "tests/unit/client/foreign/formats/ge_dump_bytes.h"

namespace msitd::formats {
namespace {

constexpr uint32_t kInputs = 4;
constexpr int32_t kInt8Type = 2;
constexpr int32_t kNdFormat = 2;

std::string Inputs(uint32_t count, const std::string& list) {
  return NanoValue(kInputs, BytesOf<uint32_t>({count}) + list);
}

std::string Int8Input(const std::string& values) {
  return NanoInput(kInt8Type, kNdFormat, 2, values);
}

TEST(GeNanoTest, TaggedValuesThatAreNotKnownAreSkipped) {
  const std::string shape = NanoValue(0, BytesOf<int64_t>({1, 2}));
  const auto file = OpenText(NanoDumpOf(
      NanoValue(77, "what") +
          Inputs(2, Int8Input(NanoValue(9, "?") + shape) + Int8Input(shape)),
      "abcd"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->kind(), FileKind::kGeDump);
  EXPECT_EQ((*file)->attributes(), (Attributes{{"version", "1"}}));
  const ForeignTensor* tensor = (*file)->Next();
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->io, Io::kInput);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensor->stored_layout, "ND");
  EXPECT_EQ(*ReadAll(**file, 16), "ab");
  ASSERT_NE((*file)->Next(), nullptr);
  EXPECT_EQ(*ReadAll(**file, 16), "cd");
  EXPECT_EQ((*file)->Next(), nullptr);
}

TEST(GeNanoTest, ListsThatAreCutOffAreRefused) {
  const std::string good = Int8Input(NanoValue(0, BytesOf<int64_t>({2})));
  for (const std::string& head :
       {Inputs(2, good), Inputs(~uint32_t{0}, good),
        Inputs(1, good.substr(0, good.size() - 1)),
        Inputs(1, Int8Input("short")),
        Inputs(1, Int8Input(BytesOf<uint32_t>({0, 1000}))), std::string("abc"),
        BytesOf<uint32_t>({kInputs, 1000})}) {
    EXPECT_EQ(OpenText(NanoDumpOf(head, "ab")).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(GeNanoTest, WrongShapesHaveAReason) {
  for (const std::string& dims :
       {std::string("odd"), BytesOf<int64_t>({-1}),
        BytesOf<int64_t>({int64_t{1} << 40, int64_t{1} << 40}),
        BytesOf(std::vector<int64_t>(100, 1)), BytesOf<int64_t>({3})}) {
    const auto file =
        OpenText(NanoDumpOf(Inputs(1, Int8Input(NanoValue(0, dims))), "ab"));
    ASSERT_TRUE(file.ok()) << file.status();
    const ForeignTensor* tensor = (*file)->Next();
    ASSERT_NE(tensor, nullptr);
    EXPECT_FALSE(tensor->problem.ok());
  }
}

}  // namespace
}  // namespace msitd::formats
