// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/call_book.h"

#include <gtest/gtest.h>

#include <string>

namespace msitd::watch {
namespace {

class CallBookTest : public ::testing::Test {
 protected:
  CallBookTest() { ledger_.StayCurrent(); }

  static TensorKey Key(const std::string& op, Io io = Io::kUnspecified,
                       int32_t call = 0) {
    TensorKey key;
    key.op = op;
    key.io = io;
    key.call = call;
    return key;
  }
  void Settle(const TensorKey& key, const std::string& path) {
    fill::LedgerEntry entry;
    entry.path = path;
    entry.bytes = 1;
    entry.key = fill::LedgerKeyOf(key);
    ledger_.Add(entry);
    ledger_.Mark();
    ASSERT_TRUE(ledger_.Settle().ok());
  }

  fill::ImportLedger ledger_{"fx"};
};

TEST_F(CallBookTest, GroupsOfAnOpAreItsCalls) {
  CallBook book(ledger_);
  EXPECT_EQ(book.CallOf(Key("a", Io::kInput), "t1", "1"), 0);
  EXPECT_EQ(book.CallOf(Key("a", Io::kInput), "t2", "2"), 1);
  EXPECT_EQ(book.CallOf(Key("a", Io::kOutput), "t1", "1"), 0);
  EXPECT_EQ(book.CallOf(Key("a", Io::kOutput), "t2", "2"), 1);
  EXPECT_EQ(book.CallOf(Key("b", Io::kOutput), "t2", "2"), 0);
  EXPECT_EQ(book.late_count(), 0);
}

TEST_F(CallBookTest, LateCallIsCountedBehindTheOthers) {
  CallBook book(ledger_);
  EXPECT_EQ(book.CallOf(Key("a"), "t9", "9"), 0);
  EXPECT_EQ(book.CallOf(Key("a"), "t10", "10"), 1);
  EXPECT_EQ(book.CallOf(Key("a"), "t8", "8"), 2);
  EXPECT_EQ(book.late_count(), 1);
}

TEST_F(CallBookTest, LedgerTellsWhatAFormerProcessSent) {
  Settle(Key("a", Io::kInput, 0), "in-1");
  Settle(Key("a", Io::kOutput, 0), "out-1");
  Settle(Key("a", Io::kInput, 1), "in-2");
  CallBook book(ledger_);
  EXPECT_EQ(book.CallOf(Key("a", Io::kOutput), "t2", "2"), 1);
  EXPECT_EQ(book.CallOf(Key("a", Io::kInput), "t3", "3"), 2);
}

TEST_F(CallBookTest, WhatDidNotSettleIsNotKnown) {
  fill::LedgerEntry entry;
  entry.path = "lost";
  entry.key = fill::LedgerKeyOf(Key("a"));
  ledger_.Add(entry);
  ledger_.Forget();
  Settle(Key("b"), "kept");
  EXPECT_FALSE(ledger_.HasPath("lost"));
  EXPECT_TRUE(ledger_.HasPath("kept"));
  std::string problem;
  EXPECT_FALSE(ledger_.Has(entry, problem));
  CallBook book(ledger_);
  EXPECT_EQ(book.CallOf(Key("a"), "t1", "1"), 0);
  EXPECT_EQ(book.CallOf(Key("b"), "t1", "1"), 1);
}

}  // namespace
}  // namespace msitd::watch
