// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/row_block.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace msitd::storage {
namespace {

using Rows = std::vector<std::string>;

// Returns random bytes; a small number of different ones makes equal stretches
// likely.
std::string RandomBytes(size_t count, int different, std::mt19937& random) {
  std::string out(count, '\0');
  for (char& byte : out) {
    byte = static_cast<char>(random() % static_cast<unsigned>(different));
  }
  return out;
}

// Returns a row like those of a comparison: equal texts between numbers.
std::string LikeARow(int number, std::mt19937& random) {
  std::string out;
  for (int metric = 0; metric < 20; ++metric) {
    out += "\x7a\x16\x0a\x0bsome_metric" + std::to_string(metric) + "\x11" +
           RandomBytes(6, 256, random) + "\x40\x3f";
  }
  for (const char* const run : {"golden", "target"}) {
    out += "runs/" + std::string(run) + "/ranks/0/tokens/7/ops/model.layers." +
           std::to_string(number) + ".mlp/calls/0/output/0";
  }
  return out + "nl2 <= 1e-4 and scaled_max_abs <= 1e-4 or mismatch_count == 0";
}

void ExpectRoundTrip(const Rows& rows) {
  Rows back = {"before"};
  ASSERT_TRUE(DecodeRows(EncodeRows(rows), back));
  EXPECT_EQ(back, rows);
}

TEST(RowBlockTest, RowsComeBackWithoutWhatTheyShare) {
  const std::string metrics(700, 'm');
  const Rows rows = {metrics + "one", metrics + "other", metrics, "",
                     metrics.substr(1)};
  ExpectRoundTrip(rows);
  EXPECT_LT(EncodeRows(rows).size(), 2 * metrics.size() + 60);
  ExpectRoundTrip({});
  ExpectRoundTrip({"", "", ""});
}

TEST(RowBlockTest, RowsOfAComparisonTakeAThirdOfTheirBytes) {
  std::mt19937 random(3);
  Rows rows;
  size_t bytes = 0;
  for (int i = 0; i < 64; ++i) {
    // Names have other lengths from number 10 on.
    rows.push_back(LikeARow(i, random));
    bytes += rows.back().size();
  }
  ExpectRoundTrip(rows);
  EXPECT_LT(EncodeRows(rows).size(), bytes / 3);
}

TEST(RowBlockTest, AnyRowsComeBack) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    const int different = round % 3 == 0 ? 2 : round % 3 == 1 ? 5 : 256;
    Rows rows;
    for (size_t i = 0; i < random() % 6; ++i) {
      std::string row = RandomBytes(random() % 200, different, random);
      // Insert, remove or replace some bytes of the previous row.
      if (i > 0 && random() % 2 == 0) {
        row = rows.back();
        const size_t at = random() % (row.size() + 1);
        row.replace(at, random() % 20,
                    RandomBytes(random() % 20, different, random));
      }
      rows.push_back(row);
    }
    ExpectRoundTrip(rows);
  }
}

TEST(RowBlockTest, BlocksOfEarlierVersionsAreRead) {
  Rows back;
  ASSERT_TRUE(
      DecodeRows(std::string_view("\x01\x03one\x00\x05three", 12), back));
  EXPECT_EQ(back, (Rows{"one", "", "three"}));
  ASSERT_TRUE(
      DecodeRows(std::string_view("\x02\x00\x03one\x02\x01x", 9), back));
  EXPECT_EQ(back, (Rows{"one", "onx"}));
}

TEST(RowBlockTest, DamagedBlocksAreRefused) {
  const Rows rows = {"one", "", "three"};
  const std::string block = EncodeRows(rows);
  Rows back;
  EXPECT_FALSE(DecodeRows(block.substr(0, block.size() - 1), back));
  EXPECT_FALSE(DecodeRows("", back));
  EXPECT_FALSE(DecodeRows("\x04", back));
  EXPECT_FALSE(DecodeRows(std::string_view("\x00", 1), back));
  // Version 2: the first row has no previous row, and the previous row of the
  // second one is shorter.
  EXPECT_FALSE(DecodeRows(std::string_view("\x02\x01\x00", 3), back));
  EXPECT_FALSE(DecodeRows(std::string_view("\x02\x00\x01x\x02\x00", 6), back));
  // Version 3: a row that is larger than all bytes, bytes copied from no row,
  // more bytes than the row has, and bytes replaced in no row.
  EXPECT_FALSE(DecodeRows("\x03\x7f\x01", back));
  EXPECT_FALSE(DecodeRows(std::string_view("\x03\x01\x01\x01", 4), back));
  EXPECT_FALSE(DecodeRows(std::string_view("\x03\x01\x00\x04\x00xy", 7), back));
  EXPECT_FALSE(DecodeRows(std::string_view("\x03\x01\x00\x03x", 5), back));
}

// No damage may make a block much larger than its bytes.
TEST(RowBlockTest, DamagedBlocksStaySmall) {
  std::mt19937 random(11);
  Rows rows;
  for (int i = 0; i < 64; ++i) rows.push_back(LikeARow(i, random));
  const std::string block = EncodeRows(rows);
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = block;
    for (int flips = 0; flips < 4; ++flips) {
      damaged[1 + random() % (damaged.size() - 1)] =
          static_cast<char>(random());
    }
    Rows back;
    if (!DecodeRows(damaged, back)) continue;
    size_t bytes = 0;
    for (const std::string& row : back) bytes += row.size();
    EXPECT_LE(bytes, kRowsMax * damaged.size());
  }
}

}  // namespace
}  // namespace msitd::storage
