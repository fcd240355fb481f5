// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "client/ask/print/field_text.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

std::optional<std::string> Cell(const google::protobuf::Message& message,
                                std::string_view column,
                                CellStyle style = CellStyle::kHuman) {
  return Column::Parse(*message.GetDescriptor(), column)->Get(message, style);
}

std::string ErrorOf(std::string_view wanted) {
  const auto columns =
      ParseColumns(*v1::Tensor::descriptor(), "size=size_bytes", wanted);
  return columns.ok() ? "" : std::string(Message(columns.status()));
}

TEST(ColumnTest, NumbersAreShortForPeopleAndExactForPrograms) {
  v1::Tensor tensor;
  tensor.set_size_bytes(1536 << 10);
  tensor.mutable_summary()->set_mean(1.0 / 3);
  EXPECT_THAT(Cell(tensor, "size_bytes"), Optional(std::string("1.5 MiB")));
  EXPECT_THAT(Cell(tensor, "size_bytes", CellStyle::kExact),
              Optional(std::string("1572864")));
  EXPECT_THAT(Cell(tensor, "summary.mean"), Optional(std::string("0.333333")));
  EXPECT_THAT(Cell(tensor, "summary.mean", CellStyle::kExact),
              Optional(std::string("0.3333333333333333")));
}

TEST(ColumnTest, NonFiniteNumbersAreWords) {
  v1::Summary summary;
  summary.set_min(-std::numeric_limits<double>::infinity());
  summary.set_max(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(Cell(summary, "min"), Optional(std::string("-inf")));
  EXPECT_THAT(Cell(summary, "max"), Optional(std::string("nan")));
}

TEST(ColumnTest, AbsentIsNotZero) {
  v1::Tensor tensor;
  EXPECT_EQ(Cell(tensor, "summary.nan_count"), std::nullopt);
  tensor.mutable_summary();
  EXPECT_EQ(Cell(tensor, "summary.min"), std::nullopt);
  EXPECT_THAT(Cell(tensor, "summary.nan_count"), Optional(std::string("0")));
}

TEST(ColumnTest, EnumsAreTheWordsOfTheFlags) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::D_TYPE_FLOAT8_E4M3FN);
  tensor.set_io(v1::IO_GRAD_INPUT);
  EXPECT_THAT(Cell(tensor, "dtype"), Optional(std::string("float8_e4m3fn")));
  EXPECT_THAT(Cell(tensor, "io"), Optional(std::string("grad_input")));
  v1::NodeStatus status;
  status.set_storage_state(v1::NodeStatus::OK);
  EXPECT_THAT(Cell(status, "storage_state"), Optional(std::string("ok")));
}

TEST(ColumnTest, ShapesAreLists) {
  v1::Tensor tensor;
  EXPECT_THAT(Cell(tensor, "shape"), Optional(std::string("[]")));
  tensor.add_shape(2);
  tensor.add_shape(3);
  EXPECT_THAT(Cell(tensor, "shape"), Optional(std::string("[2, 3]")));
}

TEST(ColumnTest, TimesAndDurations) {
  v1::Run run;
  EXPECT_EQ(Cell(run, "create_time"), std::nullopt);
  run.mutable_create_time()->set_seconds(1700000000);
  run.mutable_create_time()->set_nanos(250000000);
  EXPECT_THAT(Cell(run, "create_time"),
              Optional(std::string("2023-11-14T22:13:20Z")));
  EXPECT_THAT(Cell(run, "create_time", CellStyle::kExact),
              Optional(std::string("2023-11-14T22:13:20.250Z")));
  v1::NodeStatus status;
  status.mutable_uptime()->set_seconds(187);
  EXPECT_THAT(Cell(status, "uptime"), Optional(std::string("3m07s")));
  EXPECT_THAT(Cell(status, "uptime", CellStyle::kExact),
              Optional(std::string("187s")));
}

TEST(ColumnTest, AKeySelectsFromAList) {
  v1::ComparisonRow row;
  v1::MetricValue& metric = *row.add_metrics();
  metric.set_metric("cosine");
  metric.set_value(0.5);
  EXPECT_THAT(Cell(row, "metrics.cosine"), Optional(std::string("0.5")));
  EXPECT_EQ(Cell(row, "metrics.kl"), std::nullopt);
  EXPECT_THAT(Cell(row, "metrics"), Optional(std::string("cosine: 0.5")));
  EXPECT_TRUE(
      Column::Parse(*row.GetDescriptor(), "metrics.cosine")->is_number());
  v1::Run run;
  (*run.mutable_labels())["a.b"] = "x";
  EXPECT_THAT(Cell(run, "labels.a.b"), Optional(std::string("x")));
}

TEST(ColumnTest, PathsJoinWhatIsThere) {
  v1::Tensor tensor;
  tensor.set_io(v1::IO_OUTPUT);
  EXPECT_THAT(Cell(tensor, "io/index"), Optional(std::string("output")));
  tensor.set_index("1.0");
  EXPECT_THAT(Cell(tensor, "io/index"), Optional(std::string("output/1.0")));
}

TEST(ColumnTest, PairsShowBothSidesOnlyIfTheyDiffer) {
  v1::ComparisonRow row;
  const char* kDType = "dtype=golden.dtype|target.dtype";
  EXPECT_EQ(Cell(row, kDType), std::nullopt);
  row.mutable_golden()->set_dtype(v1::D_TYPE_FLOAT32);
  EXPECT_THAT(Cell(row, kDType), Optional(std::string("float32/-")));
  row.mutable_target()->set_dtype(v1::D_TYPE_BFLOAT16);
  EXPECT_THAT(Cell(row, kDType), Optional(std::string("float32/bfloat16")));
  row.mutable_target()->set_dtype(v1::D_TYPE_FLOAT32);
  EXPECT_THAT(Cell(row, kDType), Optional(std::string("float32")));
}

TEST(ColumnTest, AllPathsReachIntoNestedMessagesButNotIntoTimes) {
  const auto paths = FieldPath::All(*v1::Run::descriptor());
  EXPECT_THAT(paths, Contains("counters.tensor_count"));
  EXPECT_THAT(paths, Contains("create_time"));
  EXPECT_THAT(paths, Contains("labels"));
  EXPECT_THAT(paths, Not(Contains("counters")));
  EXPECT_THAT(paths, Not(Contains("create_time.seconds")));
}

TEST(ColumnTest, AUserMayNameAHeaderAPathOrItsEnd) {
  const auto columns =
      ParseColumns(*v1::Tensor::descriptor(), "size=size_bytes",
                   "size, summary.min,nan_count");
  ASSERT_TRUE(columns.ok());
  ASSERT_EQ(columns->size(), 3u);
  EXPECT_EQ((*columns)[0].header(), "size");
  EXPECT_EQ((*columns)[1].header(), "summary.min");
  EXPECT_EQ((*columns)[2].header(), "nan_count");
}

TEST(ColumnTest, AColumnThatIsNotThereIsNamed) {
  EXPECT_THAT(ErrorOf("nope"), HasSubstr("no column \"nope\""));
  EXPECT_THAT(ErrorOf("summary"), HasSubstr("no column \"summary\""));
  EXPECT_THAT(ErrorOf("op.x"), HasSubstr("no column \"op.x\""));
  EXPECT_THAT(ErrorOf(" , "), HasSubstr("--columns is empty"));
}

TEST(ColumnTest, AnEndThatFitsTwoPathsIsRefused) {
  const auto columns =
      ParseColumns(*v1::ComparisonRow::descriptor(), "row", "nan_count");
  ASSERT_FALSE(columns.ok());
  EXPECT_THAT(
      std::string(Message(columns.status())),
      HasSubstr("is ambiguous: use golden.nan_count or target.nan_count"));
}

}  // namespace
}  // namespace msitd::ask
