// SPDX-License-Identifier: Apache-2.0
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <string>

#include "protos/base/attachment_limits.h"
#include "storage/index/db/index_db.h"
#include "storage/index/table/attachment_table.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::msitd::testing::FaultEnv;

// Tests of attachments with crashes, full disks and tidying.
class StoreAttachmentsTest : public StoreTest {
 protected:
  std::unique_ptr<AttachmentWriter> Begin(const std::string& name,
                                          const std::string& bytes,
                                          bool replaces = false) {
    auto writer =
        store_->attachments().Begin({"run", name, "text/plain", replaces});
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->Append(bytes).ok());
    return *std::move(writer);
  }

  AttachmentInfo Write(const std::string& name, const std::string& bytes,
                       bool replaces = false) {
    const auto info = Begin(name, bytes, replaces)->Commit();
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(AttachmentInfo());
  }

  void ExpectBytes(const std::string& name, const std::string& bytes) {
    const auto info = store_->attachments().GetAttachment("run", name);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->size_bytes, bytes.size());
    const auto read =
        store_->attachments().ReadAttachment(*info, 0, bytes.size());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == bytes);
  }

  void ExpectAbsent(const std::string& name) {
    EXPECT_EQ(Reason(store_->attachments().GetAttachment("run", name).status()),
              "ATTACHMENT_NOT_FOUND");
  }

  void TidyAll() {
    for (int steps = 0; steps < 1000; ++steps) {
      ASSERT_TRUE(store_->upkeep().Retain(RetentionPolicy()).ok());
      const auto is_done = store_->upkeep().Tidy();
      ASSERT_TRUE(is_done.ok()) << is_done.status();
      if (*is_done) return;
    }
    FAIL() << "tidying does not end";
  }

  // Closes the store and returns the number of index entries that begin with
  // `tag`.
  int CountEntries(char tag) {
    EXPECT_TRUE(store_->Close().ok());
    Drop();
    auto db = IndexDb::Open({.directory = options_.directory + "/index"});
    EXPECT_TRUE(db.ok()) << db.status();
    int count = 0;
    const auto it = (*db)->Iterate(Table::kRun, rocksdb::ReadOptions());
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      count += it->key()[0] == tag ? 1 : 0;
    }
    return count;
  }

  FaultEnv env_{Env::Posix()};
};

TEST_F(StoreAttachmentsTest, WhatWasCommittedSurvivesACrash) {
  OpenWithRun("run");
  const std::string bytes(700'000, 'x');
  Write("a", bytes);
  Open();
  ExpectBytes("a", bytes);
}

TEST_F(StoreAttachmentsTest, NothingOfAnInterruptedWriteIsSeenAndItsBytesGo) {
  OpenWithRun("run");
  Write("kept", "bytes");
  {
    const auto writer = Begin("torn", std::string(700'000, 'x'));
    // A crash runs no destructor. The destructor has no effect on the disk.
  }
  Open();
  ExpectAbsent("torn");
  // A new attachment does not get the old bytes.
  Write("new", "new bytes");
  ExpectBytes("new", "new bytes");
  TidyAll();
  ExpectBytes("kept", "bytes");
  ExpectBytes("new", "new bytes");
  EXPECT_EQ(CountEntries('b'), 2);
  Open();
  EXPECT_EQ(CountEntries('x'), 0);
}

TEST_F(StoreAttachmentsTest, TidyLeavesAloneWhatIsBeingWritten) {
  OpenWithRun("run");
  const std::string bytes(700'000, 'x');
  const auto writer = Begin("a", bytes);
  TidyAll();
  ASSERT_TRUE(writer->Append("end").ok());
  ASSERT_TRUE(writer->Commit().ok());
  TidyAll();
  ExpectBytes("a", bytes + "end");
}

TEST_F(StoreAttachmentsTest, BytesOfReplacedAndDeletedOnesAndOfRunsGo) {
  OpenWithRun("run");
  const AttachmentInfo old = Write("a", std::string(700'000, 'x'));
  Write("a", "new", /*replaces=*/true);
  Write("b", std::string(700'000, 'y'));
  ASSERT_TRUE(store_->attachments().DeleteAttachment("run", "b").ok());
  ASSERT_TRUE(store_->runs().CreateRun({"other", 0, {}}).ok());
  {
    auto writer = store_->attachments().Begin({"other", "c", "text/plain"});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append(std::string(700'000, 'z')).ok());
    ASSERT_TRUE((*writer)->Commit().ok());
  }
  ASSERT_TRUE(store_->runs().DeleteRun("other").ok());
  TidyAll();
  const auto read = store_->attachments().ReadAttachment(old, 0, 1);
  EXPECT_EQ(Reason(read.status()), "ATTACHMENT_NOT_FOUND");
  ExpectBytes("a", "new");
  EXPECT_EQ(CountEntries('b'), 1);
  Open();
  EXPECT_EQ(CountEntries('x'), 0);
}

TEST_F(StoreAttachmentsTest, AFullDiskRefusesThemAndLetsThemGo) {
  ASSERT_TRUE(TryOpen(env_).ok());
  ASSERT_TRUE(store_->runs().CreateRun({"run", 0, {}}).ok());
  Write("a", "bytes");
  const auto begun = Begin("b", "bytes");
  env_.LimitFreeBytes(uint64_t{1} << 20);
  const auto refused =
      store_->attachments().Begin({"run", "c", "text/plain"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused), "DISK_FULL");
  EXPECT_EQ(Reason(begun->Append(std::string(300'000, 'x'))), "DISK_FULL");
  ExpectBytes("a", "bytes");
  EXPECT_TRUE(store_->attachments().DeleteAttachment("run", "a").ok());
  ExpectAbsent("a");
}

TEST_F(StoreAttachmentsTest, AllOfAStoreTogetherHaveABound) {
  OpenWithRun("run");
  // The size counts, even without bytes, so large attachments are only entered
  // in the index.
  EXPECT_TRUE(store_->Close().ok());
  Drop();
  {
    auto db = IndexDb::Open({.directory = options_.directory + "/index"});
    ASSERT_TRUE(db.ok()) << db.status();
    AttachmentTable table(**db);
    for (int i = 0; i < 64; ++i) {
      const auto id = table.Begin();
      ASSERT_TRUE(id.ok()) << id.status();
      AttachmentInfo info;
      info.id = *id;
      info.name = std::to_string(i);
      // Ten bytes are left for all other attachments.
      info.size_bytes = kAttachmentBytesMax - (i == 0 ? 10 : 0);
      ASSERT_TRUE(table.Commit(RunId{1}, info, false).ok());
    }
  }
  Open();
  const auto one = Begin("one", std::string(9, 'x'));
  const auto two = store_->attachments().Begin({"run", "two", "text/plain"});
  ASSERT_TRUE(two.ok());
  ASSERT_TRUE((*two)->Append("x").ok());
  EXPECT_EQ(Reason((*two)->Append("y")), "ATTACHMENTS_EXHAUSTED");
  ASSERT_TRUE(one->Commit().ok());
  EXPECT_EQ(Reason((*two)->Commit().status()), "ATTACHMENTS_EXHAUSTED");
  ASSERT_TRUE(store_->attachments().DeleteAttachment("run", "5").ok());
  const auto three = store_->attachments().Begin({"run", "3x", "text/plain"});
  EXPECT_TRUE((*three)->Append("yy").ok());
}

}  // namespace
}  // namespace msitd::storage
