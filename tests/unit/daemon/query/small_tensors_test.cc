// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/small_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::query {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class SmallTensorsTest : public ::testing::Test {
 protected:
  using Found = std::vector<std::pair<size_t, std::string>>;

  void Record(const std::string& op, const std::string& bytes) {
    compare::RecordedTensor tensor;
    tensor.op = op;
    tensor.bytes = bytes;
    tensor.dtype = DType::kUint8;
    tensor.shape = {static_cast<int64_t>(bytes.size())};
    recorder_.Record(tensor);
    keys_.push_back(recorder_.KeyOf(tensor));
  }

  // Reads until `stop` has been called `limit` times. 0: reads to the end.
  absl::Status Read(int limit = 0) {
    auto run = store_.OpenRun("r");
    if (!run.ok()) return run.status();
    SmallTensors tensors(*std::move(run), keys_);
    found_.clear();
    int questions = 0;
    const auto stop = [&]() -> absl::Status {
      return ++questions == limit ? absl::CancelledError("gone")
                                  : absl::OkStatus();
    };
    SmallTensors::Tensor tensor;
    while (true) {
      const auto next = tensors.Next(stop, tensor);
      if (!next.ok() || !*next) return next.status();
      found_.emplace_back(
          tensor.position,
          std::string(reinterpret_cast<const char*>(tensor.data.data()),
                      tensor.data.size()));
    }
  }

  testing::FakeStore store_;
  compare::RunRecorder recorder_{store_, "r"};
  std::vector<TensorKey> keys_;
  Found found_;
};

TEST_F(SmallTensorsTest, TheyComeInTheOrderOfTheirKeys) {
  Record("b", "first");
  Record("a", "");
  Record("c", "third");
  std::swap(keys_[0], keys_[2]);
  keys_.push_back(keys_[0]);
  ASSERT_TRUE(Read().ok());
  EXPECT_THAT(found_, ElementsAre(Pair(0, "third"), Pair(1, ""),
                                  Pair(2, "first"), Pair(3, "third")));
}

TEST_F(SmallTensorsTest, WhatCannotBeReadIsPassedOver) {
  Record("missing", "x");
  keys_[0].op = "another";
  Record("corrupt", "bad");
  Record("expired", "old");
  Record("large", std::string(SmallTensors::kTensorBytesMax + 1, 'x'));
  Record("whole", "good");
  store_.Corrupt(keys_[1], 0);
  store_.Expire(keys_[2]);
  ASSERT_TRUE(Read().ok());
  EXPECT_THAT(found_, ElementsAre(Pair(4, "good")));
}

TEST_F(SmallTensorsTest, ABatchMayTakeFewerThanItIsGiven) {
  for (int i = 0; i < 7; ++i) Record("op" + std::to_string(i), {char('0' + i)});
  store_.LimitBatches(2);
  ASSERT_TRUE(Read().ok());
  ASSERT_EQ(found_.size(), keys_.size());
  for (size_t i = 0; i < keys_.size(); ++i) {
    EXPECT_EQ(found_[i], std::pair(i, std::string(1, char('0' + i))));
  }
}

TEST_F(SmallTensorsTest, NoMoreIsLookedUpThanABatchTakes) {
  const std::string bytes(SmallTensors::kTensorBytesMax, 'x');
  constexpr size_t kInBatch =
      SmallTensors::kBatchBytes / SmallTensors::kTensorBytesMax;
  for (size_t i = 0; i < 2 * kInBatch; ++i) {
    Record("op" + std::to_string(i), bytes);
  }
  const uint64_t before = store_.get_tensor_count();
  EXPECT_TRUE(absl::IsCancelled(Read(kInBatch + 1)));
  EXPECT_EQ(store_.get_tensor_count() - before, kInBatch);
  EXPECT_EQ(found_.size(), kInBatch);
  EXPECT_EQ(found_.back().second, bytes);
}

TEST_F(SmallTensorsTest, ARunThatGoesTakesItsTensorsAlong) {
  Record("a", "x");
  auto run = store_.OpenRun("r");
  SmallTensors tensors(*std::move(run), keys_);
  ASSERT_TRUE(store_.DeleteRun("r").ok());
  SmallTensors::Tensor tensor;
  const auto next = tensors.Next([] { return absl::OkStatus(); }, tensor);
  EXPECT_TRUE(next.ok() && !*next) << next.status();
}

}  // namespace
}  // namespace msitd::query
