// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "daemon/query/tensor_histogram.h"
#include "daemon/service/tensor_service.h"
#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::service {
namespace {

using ::testing::ElementsAre;
using testing::ProducedTensor;
using testing::Producer;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class TensorHistogramTest : public EitherStoreFixture {
 protected:
  // Records one tensor and returns its name.
  std::string Record(const std::vector<float>& values) {
    const ProducedTensor tensor{.op = "a", .values = values};
    Ingest(producer_, {{tensor}});
    return FormatTensorName(producer_.KeyOf(tensor));
  }

  grpc::Status Compute(const v1::ComputeHistogramRequest& request,
                       v1::Histogram& histogram) {
    histogram.Clear();
    return Invoke(*tensors_, &v1::TensorService::Stub::ComputeHistogram,
                  request, histogram);
  }

  std::string OutcomeOf(const v1::ComputeHistogramRequest& request) {
    v1::Histogram histogram;
    return Outcome(Compute(request, histogram));
  }

  static v1::ComputeHistogramRequest RequestOf(const std::string& name,
                                               int32_t bin_count) {
    v1::ComputeHistogramRequest request;
    request.set_name(name);
    request.set_bin_count(bin_count);
    return request;
  }

  Producer producer_{"run", 0, 7};
};

INSTANTIATE_TEST_SUITE_P(Stores, TensorHistogramTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

TEST_P(TensorHistogramTest, LimitsAreTheFiniteExtremesIfNotGiven) {
  auto request = RequestOf(Record({-1, 0, 0.5, 3, 2.9F}), 4);
  v1::Histogram got;
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_EQ(got.low(), -1);
  EXPECT_EQ(got.high(), 3);
  EXPECT_THAT(got.counts(), ElementsAre(1, 2, 0, 2));
  EXPECT_EQ(got.below_count() + got.above_count() + got.nan_count(), 0);
  request.set_bin_count(0);
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_EQ(got.counts_size(), 64);
}

TEST_P(TensorHistogramTest, InfinitiesAreOutsideAndWidenNothing) {
  const auto request =
      RequestOf(Record({-kInf, 1, kNaN, 2, kInf, kInf, kNaN, 1}), 2);
  v1::Histogram got;
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_EQ(got.low(), 1);
  EXPECT_EQ(got.high(), 2);
  EXPECT_THAT(got.counts(), ElementsAre(2, 1));
  EXPECT_EQ(got.below_count(), 1);
  EXPECT_EQ(got.above_count(), 2);
  EXPECT_EQ(got.nan_count(), 2);
}

TEST_P(TensorHistogramTest, GivenLimitsCutAndTheOtherOneGivesWay) {
  auto request = RequestOf(Record({-4, -1, 0, 1, 4}), 2);
  request.set_low(-1);
  request.set_high(1);
  v1::Histogram got;
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_THAT(got.counts(), ElementsAre(1, 2));
  EXPECT_EQ(got.below_count(), 1);
  EXPECT_EQ(got.above_count(), 1);
  request.clear_high();
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_EQ(got.high(), 4);
  request.set_low(10);
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_EQ(got.high(), 10);
  EXPECT_EQ(got.below_count(), 5);
  request.clear_low();
  request.set_high(-10);
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_EQ(got.low(), -10);
  EXPECT_EQ(got.above_count(), 5);
}

TEST_P(TensorHistogramTest, NothingFiniteIsAtZero) {
  v1::Histogram got;
  ASSERT_TRUE(Compute(RequestOf(Record({kNaN, kInf}), 3), got).ok());
  EXPECT_EQ(got.low(), 0);
  EXPECT_EQ(got.high(), 0);
  EXPECT_THAT(got.counts(), ElementsAre(0, 0, 0));
  EXPECT_EQ(got.above_count(), 1);
  EXPECT_EQ(got.nan_count(), 1);
}

TEST_P(TensorHistogramTest, AnEmptyTensorHasEmptyBins) {
  auto request = RequestOf(Record({}), 2);
  v1::Histogram got;
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_THAT(got.counts(), ElementsAre(0, 0));
  request.set_low(5);
  ASSERT_TRUE(Compute(request, got).ok());
  EXPECT_EQ(got.high(), 5);
}

TEST_P(TensorHistogramTest, AllPartsOfATensorCount) {
  constexpr uint64_t kBytes = 2 * kPartBytes + 1000;
  const auto stream = OpenChunks(producer_);
  for (uint64_t part = 0; part < 3; ++part) {
    stream->Write(producer_.Part(part, "big", kBytes, part,
                                 static_cast<char>(part * 10)));
  }
  ASSERT_TRUE(stream->Finish().ok());
  v1::Histogram got;
  const std::string name =
      FormatTensorName(producer_.KeyOf({.op = "big", .values = {}}));
  ASSERT_TRUE(Compute(RequestOf(name, 20), got).ok());
  EXPECT_EQ(got.high(), 20);
  EXPECT_EQ(got.counts(0), int64_t{kPartBytes});
  EXPECT_EQ(got.counts(10), int64_t{kPartBytes});
  EXPECT_EQ(got.counts(19), 1000);
}

TEST_P(TensorHistogramTest, FieldsAreChecked) {
  const std::string name = Record({1, 2});
  EXPECT_EQ(OutcomeOf(RequestOf("", 1)), "3 NAME_INVALID");
  EXPECT_EQ(OutcomeOf(RequestOf("runs/run/ranks/x", 1)), "3 NAME_INVALID");
  EXPECT_EQ(
      OutcomeOf(RequestOf(
          FormatTensorName(producer_.KeyOf({.op = "none", .values = {}})), 1)),
      "5 TENSOR_NOT_FOUND");
  EXPECT_EQ(OutcomeOf(RequestOf(name, -1)), "3 FIELD_INVALID");
  EXPECT_EQ(OutcomeOf(RequestOf(name, 1025)), "3 FIELD_INVALID");
  EXPECT_EQ(OutcomeOf(RequestOf(name, 1024)), "0 ");
  auto request = RequestOf(name, 1);
  request.set_low(kInf);
  EXPECT_EQ(OutcomeOf(request), "3 FIELD_INVALID");
  request.set_low(2);
  request.set_high(kNaN);
  EXPECT_EQ(OutcomeOf(request), "3 FIELD_INVALID");
  request.set_high(1.9);
  EXPECT_EQ(OutcomeOf(request), "3 FIELD_INVALID");
  request.set_high(2);
  EXPECT_EQ(OutcomeOf(request), "0 ");
}

class FakeTensorHistogramTest : public ServiceFixture {};

TEST_F(FakeTensorHistogramTest, CorruptAndExpiredBytesAreNotCounted) {
  Producer producer("run", 0, 7);
  const ProducedTensor corrupt{.op = "a", .values = {1}};
  const ProducedTensor expired{.op = "b", .values = {2}};
  Ingest(producer, {{corrupt, expired}});
  fake_->Corrupt(producer.KeyOf(corrupt), 0);
  fake_->Expire(producer.KeyOf(expired));
  const auto outcome = [&](const ProducedTensor& tensor) {
    v1::ComputeHistogramRequest request;
    request.set_name(FormatTensorName(producer.KeyOf(tensor)));
    v1::Histogram histogram;
    return Outcome(Invoke(*tensors_, &v1::TensorService::Stub::ComputeHistogram,
                          request, histogram));
  };
  EXPECT_EQ(outcome(corrupt), "15 FRAME_CORRUPT");
  EXPECT_EQ(outcome(expired), "9 TENSOR_EXPIRED");
}

TEST_F(FakeTensorHistogramTest, AStopEndsTheWork) {
  Producer producer("run", 0, 7);
  const ProducedTensor tensor{.op = "a", .values = {1, kInf}};
  Ingest(producer, {{tensor}});
  query::HistogramSpec spec;
  spec.bin_count = 1;
  int asked = 0;
  const auto outcome = query::ComputeHistogram(
      store_->readers(), producer.KeyOf(tensor), spec, [&asked] {
        // The stop is after the pass that determines the finite extremes.
        return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("gone");
      });
  EXPECT_TRUE(absl::IsCancelled(outcome.status())) << outcome.status();
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace msitd::service
