// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/group_digest.h"

#include <gtest/gtest.h>

#include <vector>

#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/support/test_chunk.h"

namespace msitd::query {
namespace {

using testing::FakeStore;
using testing::MakeTensor;
using testing::TestTensor;

void Append(FakeStore& store, const std::vector<TestTensor>& records,
            uint64_t sequence) {
  testing::TestChunks chunks(1, sequence, records);
  const absl::Status status = store.Append(chunks.span());
  ASSERT_TRUE(status.ok()) << Message(status);
}

std::vector<TestTensor> Records(const std::string& run, int64_t token) {
  std::vector<TestTensor> out = {MakeTensor(run, token, "a", 100),
                                 MakeTensor(run, token, "b", 64)};
  out[0].stack = run + ".py:1 forward";
  out[1].sequence = 1;
  return out;
}

std::vector<GroupDigest> DigestsOf(FakeStore& store, const std::string& run,
                                   const Selector& selector = {}) {
  std::vector<GroupDigest> out;
  const auto reader = store.OpenRun(run);
  auto scan = GroupDigestScan::Begin(**reader, selector, "");
  GroupDigest digest;
  while (*(*scan)->Next(digest, [] { return absl::OkStatus(); })) {
    out.push_back(digest);
  }
  return out;
}

TEST(GroupDigestTest, EqualRunsOfTwoStoresHaveEqualOnes) {
  FakeStore one;
  FakeStore two;
  ASSERT_TRUE(one.CreateRun({"r", 0, {}}).ok());
  ASSERT_TRUE(two.CreateRun({"before", 0, {}}).ok());
  ASSERT_TRUE(two.CreateRun({"other", 0, {}}).ok());
  // In this store, the names are recorded in another order.
  Append(two, {MakeTensor("before", 0, "b", 4)}, 0);
  for (int64_t token = 0; token < 3; ++token) {
    Append(one, Records("r", token), static_cast<uint64_t>(token));
    Append(two, Records("other", token), static_cast<uint64_t>(token));
  }
  const std::vector<GroupDigest> digests = DigestsOf(one, "r");
  ASSERT_EQ(digests.size(), 3u);
  EXPECT_EQ(digests[1].record_count, 2u);
  EXPECT_EQ(DigestsOf(two, "other"), digests);
  EXPECT_EQ(DigestsOf(one, "r", {.tokens = {{1, 1}}}),
            std::vector<GroupDigest>{digests[1]});
}

TEST(GroupDigestTest, WhateverAComparisonSeesChangesThem) {
  FakeStore store;
  int number = 0;
  const auto digest_of = [&](auto change) {
    const std::string run = "r" + std::to_string(number++);
    EXPECT_TRUE(store.CreateRun({run, 0, {}}).ok());
    std::vector<TestTensor> records = Records(run, 0);
    change(records);
    Append(store, records, 0);
    return DigestsOf(store, run).at(0);
  };
  using Tensors = std::vector<TestTensor>;
  const GroupDigest same = digest_of([](Tensors&) {});
  EXPECT_EQ(digest_of([](Tensors&) {}), same);
  EXPECT_EQ(digest_of([](Tensors& t) { t[1].stack = "x.py:9 f"; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t[1].bytes[3] ^= std::byte{1}; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t[1].key.op = "c"; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t[1].key.call = 1; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t[1].sequence = 7; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t[1].dims = {8, 8}; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t[1].requires_grad = false; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t[1].placement = "0+2/1:R"; }), same);
  EXPECT_NE(digest_of([](Tensors& t) { t.pop_back(); }), same);
}

// Each record is returned by a separate call.
TEST(GroupDigestTest, GoesOnWhereItWasStopped) {
  FakeStore store;
  ASSERT_TRUE(store.CreateRun({"r", 0, {}}).ok());
  for (int64_t token = 0; token < 3; ++token) {
    Append(store, Records("r", token), static_cast<uint64_t>(token));
  }
  const std::vector<GroupDigest> digests = DigestsOf(store, "r");
  const auto reader = store.OpenRun("r");
  std::string position;
  for (const GroupDigest& expected : digests) {
    auto scan = GroupDigestScan::Begin(**reader, {}, position);
    ASSERT_TRUE(scan.ok());
    GroupDigest digest;
    ASSERT_TRUE(*(*scan)->Next(digest, [] { return absl::OkStatus(); }));
    EXPECT_EQ(digest, expected);
    position = (*scan)->position();
  }
}

}  // namespace
}  // namespace msitd::query
