// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/record_ops.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace msitd::fill {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array<int64_t, 2> kShape = {2, 3};

RecordOps::Record Of(std::string_view op, Io io, std::string_view index) {
  return {.op = op,
          .io = io,
          .index = index,
          .shape = kShape,
          .size_bytes = 24,
          .value = {}};
}

std::vector<std::string> NamesOf(const std::vector<match::OpFacts>& ops) {
  std::vector<std::string> names;
  for (const match::OpFacts& op : ops) {
    for (const match::TensorFacts& tensor : op.tensors) {
      names.push_back(op.op + "." + std::string(IoName(tensor.io)) + "." +
                      tensor.index);
    }
  }
  return names;
}

TEST(RecordOpsTest, OpsAreInTheOrderOfTheirExecutionAndArgumentsInTheirOwn) {
  RecordOps ops("fx");
  ASSERT_TRUE(ops.Add(Of("b", Io::kInput, "10")).ok());
  ASSERT_TRUE(ops.Add(Of("b", Io::kInput, "2")).ok());
  ASSERT_TRUE(ops.Add(Of("a", Io::kOutput, "0")).ok());
  EXPECT_EQ(ops.count(), 3u);
  const auto facts = ops.Finish();
  EXPECT_THAT(NamesOf(facts),
              ElementsAre("b.input.2", "b.input.10", "a.output.0"));
  EXPECT_THAT(facts[0].tensors[0].shape, ElementsAre(2, 3));
}

TEST(RecordOpsTest, ValuesAndDocumentsAreNoArguments) {
  RecordOps ops("ge");
  for (const RecordKind kind :
       {RecordKind::kNumber, RecordKind::kText, RecordKind::kNone,
        RecordKind::kDType, RecordKind::kOther, RecordKind::kDocument}) {
    RecordOps::Record record = Of("a", Io::kInput, "0");
    record.kind = kind;
    ASSERT_TRUE(ops.Add(record).ok());
  }
  EXPECT_EQ(ops.count(), 0u);
  EXPECT_THAT(ops.Finish(), IsEmpty());
}

TEST(RecordOpsTest, StatisticsStandForTheirTensor) {
  RecordOps ops("ge");
  RecordOps::Record record = Of("a", Io::kInput, "0");
  record.kind = RecordKind::kStatistics;
  record.value = R"({"max": 1.5})";
  ASSERT_TRUE(ops.Add(record).ok());
  EXPECT_THAT(NamesOf(ops.Finish()), ElementsAre("a.input.0"));
}

// An argument that the task did not have is recorded without statistics in the
// dumps of some tools, and as a tensor without elements in others.
TEST(RecordOpsTest, AnAbsentArgumentTakesNoPlaceWhereDumpsHaveSuch) {
  for (const std::string_view source : {"ge", "fx", "mindie", "atb"}) {
    RecordOps ops(source);
    RecordOps::Record record = Of("a", Io::kInput, "0");
    record.kind = RecordKind::kStatistics;
    record.value = "{}";
    ASSERT_TRUE(ops.Add(record).ok());
    EXPECT_EQ(ops.count(), 1u) << source;
    EXPECT_THAT(ops.Finish(), IsEmpty()) << source;
  }
  for (const std::string_view source : {"", "msprobe", "msit", "files"}) {
    RecordOps ops(source);
    RecordOps::Record record = Of("a", Io::kInput, "0");
    record.kind = RecordKind::kStatistics;
    record.value = "{}";
    ASSERT_TRUE(ops.Add(record).ok());
    EXPECT_THAT(NamesOf(ops.Finish()), ElementsAre("a.input.0")) << source;
  }
}

TEST(RecordOpsTest, ElementsOfAllRanksAreCounted) {
  RecordOps ops("fx");
  for (const int32_t rank : {0, 1, 3}) {
    RecordOps::Record record = Of("a", Io::kOutput, "0");
    record.rank = rank;
    ASSERT_TRUE(ops.Add(record).ok());
  }
  const auto facts = ops.Finish();
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0].tensors[0].all_count, 18u);
  EXPECT_EQ(facts[0].tensors[0].record_count, 3u);
}

}  // namespace
}  // namespace msitd::fill
