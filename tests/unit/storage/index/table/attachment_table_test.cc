// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/attachment_table.h"

#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>

#include <string>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using std::string_literals::operator""s;

AttachmentInfo Example() {
  AttachmentInfo info;
  info.id = 300;
  info.media_type = "a/b";
  info.size_bytes = 5;
  info.hash = {0x1111111111111111, 0x2222222222222222};
  info.create_time_ns = 3;
  return info;
}

// The bytes specified in docs/format/index.md.
const std::string kExampleBytes = "\x01\xac\x02\x05\x06"s +
                                  std::string(8, '\x11') +
                                  std::string(8, '\x22') + "\x03" + "a/b";

TEST(AttachmentTableTest, TheLayoutOfAValueIsFrozen) {
  EXPECT_EQ(EncodeAttachment(Example()), kExampleBytes);
  AttachmentInfo info;
  ASSERT_TRUE(DecodeAttachment(kExampleBytes, info));
  EXPECT_EQ(info.id, 300u);
  EXPECT_EQ(info.media_type, "a/b");
  EXPECT_EQ(info.size_bytes, 5u);
  EXPECT_EQ(info.hash, Example().hash);
  EXPECT_EQ(info.create_time_ns, 3);
}

TEST(AttachmentTableTest, ValuesThatAreCutOrOfAnotherVersionAreRefused) {
  AttachmentInfo info;
  for (size_t size = 0; size < kExampleBytes.size(); ++size) {
    EXPECT_FALSE(DecodeAttachment(kExampleBytes.substr(0, size), info)) << size;
  }
  EXPECT_FALSE(DecodeAttachment(kExampleBytes + "x", info));
  std::string newer = kExampleBytes;
  newer[0] = 2;
  EXPECT_FALSE(DecodeAttachment(newer, info));
}

TEST(AttachmentTableTest, AnEntryOrAPieceThatIsDamagedIsDataLoss) {
  const testing::TempDir directory;
  auto db = IndexDb::Open({.directory = directory / "index"});
  ASSERT_TRUE(db.ok()) << db.status();
  AttachmentTable table(**db);
  const auto put = [&db](std::string_view key, std::string_view value) {
    rocksdb::WriteBatch batch;
    (*db)->Put(batch, Table::kRun, key, value);
    ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  };
  put("a" + BigEndianKey(1) + "name", kExampleBytes);
  put("b" + BigEndianKey(300) + BigEndianKey(0), "1234");
  const auto info = table.Get(RunId{1}, "name");
  ASSERT_TRUE(info.ok()) << info.status();
  // One byte is missing.
  EXPECT_EQ(table.Read(*info, 0, 5).status().code(),
            absl::StatusCode::kDataLoss);
  put("b" + BigEndianKey(300) + BigEndianKey(0), "12345");
  EXPECT_EQ(*table.Read(*info, 1, 9), "2345");
  put("a" + BigEndianKey(1) + "name", "damaged");
  EXPECT_EQ(table.Get(RunId{1}, "name").status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(table.List(RunId{1}, "", 1).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(table.Load().code(), absl::StatusCode::kDataLoss);
}

TEST(AttachmentTableTest, NumbersAreNotGivenAgain) {
  const testing::TempDir directory;
  auto db = IndexDb::Open({.directory = directory / "index"});
  ASSERT_TRUE(db.ok()) << db.status();
  AttachmentTable table(**db);
  EXPECT_EQ(*table.Begin(), 1u);
  ASSERT_TRUE(table.RemoveMarked(1).ok());
  EXPECT_EQ(*table.Begin(), 2u);
  EXPECT_EQ(table.FirstMarked({})->value(), 2u);
  EXPECT_FALSE(table.FirstMarked({2})->has_value());
}

}  // namespace
}  // namespace msitd::storage
