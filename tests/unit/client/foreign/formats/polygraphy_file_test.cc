// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/polygraphy_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

constexpr char kArray[] = R"({"array": "", "polygraphy_class": "ndarray"})";

// Returns a list with this number of arrays.
std::string Arrays(int count) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    out += kArray;
  }
  return out + "]";
}

// Returns `value` in objects with the key in one another.
std::string InObjects(std::string value, const std::string& key, int depth) {
  for (int i = 0; i < depth; ++i) {
    value = fmt::format(R"({{"{}": {}}})", key, value);
  }
  return value;
}

absl::Status StatusOf(const std::string& text) {
  return OpenPolygraphy(std::make_shared<MemorySource>(text), {}).status();
}

TEST(PolygraphyFileTest, ALongKeyIsRejected) {
  const std::string longest(kPolygraphyKeyBytesMax, 'k');
  EXPECT_TRUE(StatusOf(InObjects(kArray, longest, 1)).ok());
  const absl::Status longer = StatusOf(InObjects(kArray, longest + "k", 1));
  EXPECT_EQ(longer.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(longer.message(), "json: a key has more than 4096 bytes");
}

TEST(PolygraphyFileTest, TheBytesOfAllNamesAreBounded) {
  const std::string key(kPolygraphyKeyBytesMax, 'k');
  EXPECT_TRUE(StatusOf(InObjects(Arrays(1000), key, 10)).ok());
  EXPECT_EQ(StatusOf(InObjects(Arrays(2000), key, 10)).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(PolygraphyFileTest, LazyArraysHaveTheNamesOfTheirParents) {
  const auto file = OpenPolygraphy(
      std::make_shared<MemorySource>(fmt::format(
          R"({{"outputs": {{"y": {{"values": {}}}}}, "a": {{"b": [1, {}]}}}})",
          kArray, kArray)),
      {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Next()->name, "y");
  EXPECT_EQ((*file)->Next()->name, "a/b/1");
  EXPECT_EQ((*file)->Next(), nullptr);
}

}  // namespace
}  // namespace msitd::formats
