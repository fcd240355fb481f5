// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/batch_tree.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace msitd::msit_command {
namespace {

class ListedTree final : public trees::Tree {
 public:
  void Add(int64_t token, std::string op, std::string file, Io io) {
    trees::TreeEntry entry;
    entry.key.token = token;
    entry.key.op = std::move(op);
    entry.key.device = "npu:0";
    entry.key.io = io;
    entry.file = std::move(file);
    entries_.push_back(std::move(entry));
  }

  trees::TreeKind kind() const override { return trees::TreeKind::kGe; }
  std::vector<int32_t> ranks() const override { return {0}; }
  int32_t world_size() const override { return 1; }
  const std::vector<trees::TreeAttachment>& attachments() const override {
    return attachments_;
  }
  const trees::TreeEntry* Next() override {
    return next_ == entries_.size() ? nullptr : &entries_[next_++];
  }
  std::vector<trees::TreeProblem> TakeProblems() override { return {}; }

 private:
  std::vector<trees::TreeEntry> entries_;
  std::vector<trees::TreeAttachment> attachments_;
  size_t next_ = 0;
};

std::vector<int64_t> TokensIn(BatchTree& batch) {
  std::vector<int64_t> out;
  while (const trees::TreeEntry* const entry = batch.Next()) {
    out.push_back(entry->key.token);
  }
  return out;
}

TEST(BatchTreeTest, BatchEndsBehindItsToken) {
  ListedTree tree;
  for (const int64_t token : {0, 0, 2, 2, 3}) {
    tree.Add(token, "op", "file", Io::kUnspecified);
  }
  BatchTree batch(tree);
  batch.BeginBatch(1);
  EXPECT_EQ(TokensIn(batch), (std::vector<int64_t>{0, 0}));
  EXPECT_FALSE(batch.is_over());
  batch.BeginBatch(2);
  EXPECT_EQ(TokensIn(batch), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(batch.last_token(), 2);
  batch.BeginBatch(std::nullopt);
  EXPECT_EQ(TokensIn(batch), (std::vector<int64_t>{3}));
  EXPECT_TRUE(batch.is_over());
  batch.BeginBatch(std::nullopt);
  EXPECT_EQ(TokensIn(batch), (std::vector<int64_t>{}));
  EXPECT_EQ(batch.last_token(), std::nullopt);
}

TEST(BatchTreeTest, ABatchThatFollowsEndsWithTheOther) {
  const testing::TempDir dir;
  const std::string large = dir / "large";
  std::ofstream(large).close();
  std::filesystem::resize_file(large, kTokenBatchBytes);
  ListedTree leading;
  ListedTree following;
  for (const int64_t token : {0, 1, 1, 3}) {
    leading.Add(token, "op", token == 1 ? large : "file", Io::kUnspecified);
  }
  for (const int64_t token : {0, 1, 2, 3, 3, 4}) {
    following.Add(token, "op", "file", Io::kUnspecified);
  }
  BatchTree leader(leading);
  BatchTree follower(following);
  for (const auto& [led, followed] :
       {std::pair(std::vector<int64_t>{0, 1, 1}, std::vector<int64_t>{0, 1}),
        std::pair(std::vector<int64_t>{3}, std::vector<int64_t>{2, 3, 3}),
        std::pair(std::vector<int64_t>{}, std::vector<int64_t>{})}) {
    TokenGate gate;
    leader.LeadBatch(gate);
    follower.FollowBatch(gate);
    std::vector<int64_t> tokens;
    // The follower has to wait for the other side at each token.
    std::thread thread([&] { tokens = TokensIn(follower); });
    EXPECT_EQ(TokensIn(leader), led);
    thread.join();
    EXPECT_EQ(tokens, followed);
  }
  EXPECT_TRUE(leader.is_over());
  EXPECT_FALSE(follower.is_over());
}

TEST(BatchTreeTest, FilesOfTheBatchAreFound) {
  ListedTree tree;
  tree.Add(0, "Add", "/d/0/Add.Add.1", Io::kUnspecified);
  tree.Add(0, "Mul", "/d/0/Mul.npy", Io::kInput);
  tree.Add(1, "Add", "/d/1/Add.Add.1", Io::kUnspecified);
  BatchTree batch(tree);
  batch.BeginBatch(0);
  TokensIn(batch);
  TensorKey key;
  key.device = "npu:0";
  key.op = "Add";
  key.io = Io::kOutput;
  key.index = "2";
  EXPECT_EQ(MsitPath(batch.files().Find(key), key), "/d/0/Add.Add.1,outputs,2");
  key.token = 1;
  EXPECT_EQ(batch.files().Find(key).path, "");
  key.token = 0;
  key.op = "Mul";
  EXPECT_EQ(batch.files().Find(key).path, "");
  key.io = Io::kInput;
  key.index = "";
  EXPECT_EQ(MsitPath(batch.files().Find(key), key), "/d/0/Mul.npy");
  batch.BeginBatch(1);
  TokensIn(batch);
  EXPECT_EQ(batch.files().Find(key).path, "");
}

TEST(BatchTreeTest, DeviceThatTheTreeDoesNotSayIsAnyDevice) {
  FileIndex files;
  trees::TreeEntry entry;
  entry.key.op = "Add";
  entry.file = "plain";
  ASSERT_TRUE(files.Note(entry).ok());
  TensorKey key;
  key.op = "Add";
  key.device = "cpu:0";
  EXPECT_EQ(files.Find(key).path, "plain");
}

TEST(BatchTreeTest, WarmUpComesAsItIsAskedFor) {
  using WarmUp = BatchTree::WarmUp;
  const std::vector<std::pair<WarmUp, std::vector<std::string>>> cases = {
      {WarmUp::kKeep, {"warmup/0_Add", "warmups", "0_Add"}},
      {WarmUp::kLeave, {"warmups", "0_Add"}},
      {WarmUp::kAsToken, {"0_Add", "warmups", "0_Add"}}};
  for (const auto& [how, expected] : cases) {
    ListedTree tree;
    for (const char* op : {"warmup/0_Add", "warmups", "0_Add"}) {
      tree.Add(0, op, "/d/file", Io::kInput);
    }
    BatchTree batch(tree);
    batch.NameWarmUp(how);
    batch.BeginBatch(std::nullopt);
    std::vector<std::string> ops;
    while (const trees::TreeEntry* const entry = batch.Next()) {
      ops.push_back(entry->key.op);
    }
    EXPECT_EQ(ops, expected);
  }
}

}  // namespace
}  // namespace msitd::msit_command
