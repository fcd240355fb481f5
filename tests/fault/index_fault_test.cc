// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "storage/env/ballast.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_file_system.h"
#include "tests/support/fault_env.h"
#include "tests/support/temp_dir.h"

// Fails operations on the files of the index database one after the other. This
// includes flushes and compactions, also of tables that become empty. A failed
// assertion of RocksDB would end the test.
namespace msitd::storage {
namespace {

using ::msitd::testing::FaultEnv;
using ::msitd::testing::TempDir;

constexpr int kRoundCount = 2;
// RocksDB pauses for one second after a background error, so one scenario
// cannot fail every operation. Each scenario fails different ones.
constexpr uint64_t kStride = 11;
constexpr int kRoundKeyCount = 50;

struct Scenario {
  absl::StatusCode code;
  bool forever;
  uint64_t first_operation;
};

class IndexFaultTest : public ::testing::TestWithParam<Scenario> {
 protected:
  std::unique_ptr<IndexDb> Open() {
    auto db = IndexDb::Open({.directory = directory_,
                             .write_buffer_bytes = 64 << 10,
                             .env = env_.get()});
    return db.ok() ? *std::move(db) : nullptr;
  }

  // Keys that are written in one round are deleted in the next one, except for
  // one key, which is added to `durable` when it is durable.
  static void Work(IndexDb& db, std::vector<std::string>& durable) {
    for (int round = 0; round < kRoundCount; ++round) {
      const std::string prefix = std::to_string(round);
      rocksdb::WriteBatch unlogged;
      for (int i = 0; i < kRoundKeyCount; ++i) {
        db.Put(unlogged, Table::kTensor, prefix + std::to_string(100 + i),
               std::string(500, 'x'));
      }
      db.WriteUnlogged(unlogged).IgnoreError();
      db.Flush().IgnoreError();
      rocksdb::WriteBatch removal;
      db.DeleteRange(removal, Table::kTensor, prefix, prefix + "x");
      db.Put(removal, Table::kMeta, "durable" + prefix, "value");
      if (db.WriteDurable(removal).ok()) durable.push_back("durable" + prefix);
      db.Flush().IgnoreError();
      for (const Table table : {Table::kTensor, Table::kMeta}) {
        db.db()
            .CompactRange(rocksdb::CompactRangeOptions(), db.table(table),
                          nullptr, nullptr)
            .PermitUncheckedError();
      }
      db.Resume().IgnoreError();
    }
  }

  std::string directory_;
  std::unique_ptr<FaultEnv> env_;
};

TEST_P(IndexFaultTest, NthFailureAbortsNothingAndLosesNothingDurable) {
  uint64_t number = GetParam().first_operation;
  for (bool has_failed = true; has_failed; number += kStride) {
    SCOPED_TRACE("operation " + std::to_string(number) + " fails");
    const TempDir dir = TempDir::InMemory();
    directory_ = dir / "index";
    env_ = std::make_unique<FaultEnv>(Env::Posix());
    env_->CountIndex();
    env_->FailAt(number, absl::Status(GetParam().code, "injected"),
                 GetParam().forever);
    std::vector<std::string> durable;
    std::unique_ptr<IndexDb> db = Open();
    if (db != nullptr) Work(*db, durable);
    db.reset();
    has_failed = env_->operation_count() >= number;
    env_->StopFailing();
    db = Open();
    ASSERT_NE(db, nullptr);
    for (const std::string& key : durable) {
      const auto value = db->Get(Table::kMeta, key);
      ASSERT_TRUE(value.ok()) << value.status();
      EXPECT_TRUE(value->has_value()) << key;
    }
    if (!has_failed) {
      EXPECT_EQ(durable.size(), static_cast<size_t>(kRoundCount));
    }
  }
  EXPECT_GT(number, 50u);
}

// While so many files wait for compaction that writes are slowed down, RocksDB
// gives compactions the priority of flushes.
TEST(IndexRoomTest, CompactionThatSlowsWritesDownLeavesTheBallastToOthers) {
  constexpr int kFileCount = 24;
  constexpr int kValueBytes = 16 << 10;
  const TempDir dir = TempDir::InMemory();
  FaultEnv env(Env::Posix());
  Ballast ballast(env, dir.path(), uint64_t{1} << 20);
  ASSERT_TRUE(ballast.Take(0).ok());
  auto db = IndexDb::Open(
      {.directory = dir / "index", .env = &env, .ballast = &ballast});
  ASSERT_TRUE(db.ok()) << db.status();
  env.LimitFreeBytes(kCompactionRoomBytes - 1);
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = true;
  std::mt19937 random(1);
  for (int file = 0; file < kFileCount; ++file) {
    std::string value(kValueBytes, '\0');
    for (char& byte : value) byte = static_cast<char>(random());
    rocksdb::WriteBatch batch;
    (*db)->Put(batch, Table::kTensor, "key", "older");
    (*db)->Put(batch, Table::kTensor, "key" + std::to_string(file), value);
    ASSERT_TRUE((*db)->WriteUnlogged(batch).ok());
    const rocksdb::Status status =
        (*db)->db().Flush(flush, (*db)->table(Table::kTensor));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_FALSE((*db)
                   ->db()
                   .CompactRange(rocksdb::CompactRangeOptions(),
                                 (*db)->table(Table::kTensor), nullptr, nullptr)
                   .ok());
  EXPECT_TRUE((*db)->IsCongested());
  EXPECT_TRUE(ballast.is_whole());
}

INSTANTIATE_TEST_SUITE_P(
    All, IndexFaultTest,
    ::testing::Values(Scenario{absl::StatusCode::kUnavailable, false, 1},
                      Scenario{absl::StatusCode::kUnavailable, true, 4},
                      Scenario{absl::StatusCode::kResourceExhausted, false, 7},
                      Scenario{absl::StatusCode::kResourceExhausted, true, 10}),
    [](const ::testing::TestParamInfo<Scenario>& info) {
      const bool is_full =
          info.param.code == absl::StatusCode::kResourceExhausted;
      return std::string(is_full ? "DiskFull" : "Broken") +
             (info.param.forever ? "ForGood" : "Once");
    });

}  // namespace
}  // namespace msitd::storage
