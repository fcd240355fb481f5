// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/alias_table.h"

#include <gtest/gtest.h>

namespace msitd::libmsit {
namespace {

using capture::Level;

constexpr int64_t kDims[] = {2, 3};
constexpr int64_t kOtherDims[] = {3, 2};

TensorView Tensor(uint64_t identity) {
  TensorView tensor;
  tensor.device = "npu:0";
  tensor.op = "next";
  tensor.io = Io::kInput;
  tensor.index = "0";
  tensor.dtype = DType::kFloat32;
  tensor.dims = kDims;
  tensor.identity = identity;
  return tensor;
}

chunk::RecordSpec Recorded(int64_t token) {
  return {.device = "npu:0",
          .token = token,
          .op = "op",
          .call = 4,
          .io = Io::kOutput,
          .index = "1",
          .dtype = DType::kFloat32,
          .dims = kDims};
}

bool Finds(const AliasTable& table, const TensorView& tensor, int64_t token = 7,
           Level level = Level::kFull) {
  return table.Find(tensor, token, 0, level).has_value();
}

TEST(AliasTableTest, FindsWhatHasTheSameBytes) {
  AliasTable table;
  EXPECT_FALSE(Finds(table, Tensor(1)));
  table.Add(Tensor(1), Recorded(7), Level::kFull);
  const auto found = table.Find(Tensor(1), 7, 0, Level::kFull);
  ASSERT_TRUE(found.has_value());
  const chunk::AliasSpec spec = found->AsSpec();
  EXPECT_EQ(spec.op, "op");
  EXPECT_EQ(spec.call, 4);
  EXPECT_EQ(spec.io, Io::kOutput);
  EXPECT_EQ(spec.index, "1");
}

TEST(AliasTableTest, DoesNotFindAnotherTensor) {
  AliasTable table;
  table.Add(Tensor(1), Recorded(7), Level::kFull);
  table.Add(Tensor(0), Recorded(7), Level::kFull);
  ASSERT_TRUE(Finds(table, Tensor(1)));
  EXPECT_FALSE(Finds(table, Tensor(2)));
  EXPECT_FALSE(Finds(table, Tensor(0)));
  TensorView other = Tensor(1);
  other.dtype = DType::kInt32;
  EXPECT_FALSE(Finds(table, other));
  other = Tensor(1);
  other.dims = kOtherDims;
  EXPECT_FALSE(Finds(table, other));
  other = Tensor(1);
  other.device = "npu:1";
  EXPECT_FALSE(Finds(table, other));
}

TEST(AliasTableTest, NoRecordIsItsOwnOriginal) {
  AliasTable table;
  table.Add(Tensor(1), Recorded(7), Level::kFull);
  TensorView again = Tensor(1);
  again.op = "op";
  again.io = Io::kOutput;
  again.index = "1";
  EXPECT_FALSE(table.Find(again, 7, 4, Level::kFull).has_value());
  EXPECT_TRUE(table.Find(again, 7, 5, Level::kFull).has_value());
}

TEST(AliasTableTest, AnOriginalHasAtLeastWhatIsAskedFor) {
  const Level ascending[] = {Level::kSummary, Level::kSample, Level::kFull};
  for (const Level kept : ascending) {
    AliasTable table;
    table.Add(Tensor(1), Recorded(7), kept);
    bool has = true;
    for (const Level asked : ascending) {
      EXPECT_EQ(Finds(table, Tensor(1), 7, asked), has);
      has = has && asked != kept;
    }
  }
}

TEST(AliasTableTest, RemembersTheHighestToken) {
  AliasTable table;
  table.Add(Tensor(1), Recorded(7), Level::kFull);
  EXPECT_FALSE(Finds(table, Tensor(1), 8));
  table.Add(Tensor(2), Recorded(6), Level::kFull);
  EXPECT_FALSE(Finds(table, Tensor(2), 6));
  EXPECT_TRUE(Finds(table, Tensor(1), 7));
  table.Add(Tensor(3), Recorded(8), Level::kFull);
  EXPECT_FALSE(Finds(table, Tensor(1), 7));
  EXPECT_TRUE(Finds(table, Tensor(3), 8));
  table.Clear();
  EXPECT_FALSE(Finds(table, Tensor(3), 8));
}

TEST(AliasTableTest, ForgetsTheOldestWhenFull) {
  AliasTable table(/*aliases_max=*/2);
  for (const uint64_t identity : {1, 2, 2, 3}) {
    table.Add(Tensor(identity), Recorded(7), Level::kFull);
  }
  EXPECT_FALSE(Finds(table, Tensor(1)));
  EXPECT_TRUE(Finds(table, Tensor(2)));
  EXPECT_TRUE(Finds(table, Tensor(3)));
}

}  // namespace
}  // namespace msitd::libmsit
