// SPDX-License-Identifier: Apache-2.0
#include "storage/merge/merged_run_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::storage {
namespace {

using compare::Floats;
using compare::RecordedTensor;
using compare::RunRecorder;

class MergedRunReaderTest : public ::testing::Test {
 protected:
  static constexpr int kStoreCount = 3;

  void Record(int store, int32_t rank, const std::string& op) {
    RecordedTensor tensor = Floats(op, {static_cast<float>(rank)});
    tensor.rank = rank;
    (store == 0 ? first_ : store == 1 ? second_ : third_).Record(tensor);
  }

  absl::StatusOr<std::unique_ptr<RunReader>> Merge() {
    std::vector<RunShare> shares;
    for (int i = 0; i < kStoreCount; ++i) {
      shares.push_back(
          {"place " + std::to_string(i), *stores_[i].OpenRun("g")});
    }
    return MergeRun("g", std::move(shares));
  }

  testing::FakeStore stores_[kStoreCount];
  RunRecorder first_{stores_[0], "g"};
  RunRecorder second_{stores_[1], "g"};
  RunRecorder third_{stores_[2], "g"};
};

TEST_F(MergedRunReaderTest, AScanGoesOnFromAnyPosition) {
  for (int rank = 0; rank < 6; ++rank) {
    for (const char* op : {"a", "b", "c"}) {
      Record(rank % kStoreCount, rank, op);
    }
  }
  const auto run = Merge();
  ASSERT_TRUE(run.ok()) << run.status();
  std::string position;
  std::vector<std::string> seen;
  while (true) {
    const auto scan = (*run)->Scan({}, position);
    ASSERT_TRUE(scan.ok()) << scan.status();
    TensorInfo tensor;
    const auto found = (*scan)->Next(tensor);
    ASSERT_TRUE(found.ok()) << found.status();
    if (!*found) break;
    seen.push_back(std::to_string(tensor.key.rank) + tensor.key.op);
    position = (*scan)->position();
    AlignedBuffer buffer;
    EXPECT_TRUE((*run)->ReadPart(tensor.parts[0], buffer).ok());
  }
  EXPECT_EQ(seen.size(), 18u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ((*run)->Scan({}, "nonsense").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(MergedRunReaderTest, ABatchHasPartsOfOnePlaceAlone) {
  std::vector<PartInfo> parts;
  for (int rank = 0; rank < 4; ++rank) {
    Record(rank / 2, rank, "op");
  }
  const auto run = Merge();
  ASSERT_TRUE(run.ok()) << run.status();
  const auto scan = (*run)->Scan({}, "");
  TensorInfo tensor;
  while (*(*scan)->Next(tensor)) parts.push_back(tensor.parts[0]);
  ASSERT_EQ(parts.size(), 4u);
  AlignedBuffer buffer;
  const auto batch = (*run)->ReadParts(parts, buffer);
  ASSERT_EQ(batch->size(), 2u);
  const auto bytes = batch->Read(1);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->size(), sizeof(float));
}

// Local stores do not read samples ahead, and neither does a run that consists
// of them.
TEST_F(MergedRunReaderTest, SamplesAreReadAheadWherePlacesDo) {
  Record(0, 0, "op");
  Record(1, 1, "op");
  const auto run = Merge();
  ASSERT_TRUE(run.ok()) << run.status();
  const auto scan = (*run)->Scan({}, "");
  TensorInfo tensor;
  ASSERT_TRUE(*(*scan)->Next(tensor));
  const SamplePart sample = SamplePartOf(tensor, 0);
  AlignedBuffer buffer;
  EXPECT_EQ((*run)->ReadSamples(std::span(&sample, 1), buffer), nullptr);
  EXPECT_TRUE((*run)->ReadSample(tensor, 0, buffer).ok());
}

TEST_F(MergedRunReaderTest, WhatIsKnownOfTheRunIsAdded) {
  for (int rank = 0; rank < 5; ++rank) {
    Record(rank % kStoreCount, rank, "op");
  }
  ASSERT_TRUE(stores_[0].runs().SealRun("g").ok());
  const auto run = Merge();
  ASSERT_TRUE(run.ok()) << run.status();
  const auto info = (*run)->GetInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->counters.tensor_count, 5u);
  EXPECT_FALSE(info->sealed);
  EXPECT_EQ(info->seal_time_ns, 0);
  EXPECT_EQ(*(*run)->ListRanks(), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  const auto coordinates = (*run)->ListCoordinates({.ranks = {3, 1}});
  ASSERT_TRUE(coordinates.ok());
  ASSERT_EQ(coordinates->size(), 2u);
  EXPECT_EQ((*coordinates)[0].rank, 1);
  TensorKey key;
  key.rank = 9;
  EXPECT_EQ((*run)->GetTensor(key).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace msitd::storage
