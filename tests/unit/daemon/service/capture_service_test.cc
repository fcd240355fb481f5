// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/test_chunk.h"
#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::service {
namespace {

using Stub = v1::CaptureService::Stub;
using testing::Producer;

class CaptureServiceTest : public EitherStoreFixture {
 protected:
  void Tell(Producer& producer, int64_t seen, int64_t filtered, int64_t dropped,
            int64_t truncated, int64_t degraded) {
    const auto stream = OpenChunks(producer);
    v1::WriteChunksRequest request;
    v1::CoverageReport& report = *request.mutable_coverage();
    report.set_seen_count(seen);
    report.set_filtered_count(filtered);
    report.set_dropped_count(dropped);
    report.set_truncated_count(truncated);
    report.set_degraded_count(degraded);
    report.set_recording_ns(recording_ns_);
    report.set_open_ns(open_ns_);
    stream->Write(request);
    EXPECT_TRUE(stream->Finish().ok());
  }

  // Returns rank, streams, seen, filtered, asked, stored, dropped, truncated
  // and degraded for each rank.
  std::vector<std::vector<int64_t>> Coverage() {
    v1::GetCaptureCoverageRequest request;
    request.set_run("run");
    v1::CaptureCoverage coverage;
    EXPECT_TRUE(
        Invoke(*captures_, &Stub::GetCaptureCoverage, request, coverage).ok());
    std::vector<std::vector<int64_t>> rows;
    for (const v1::RankCoverage& rank : coverage.ranks()) {
      rows.push_back({rank.rank(), rank.stream_count(), rank.seen_count(),
                      rank.filtered_count(), rank.asked_count(),
                      rank.stored_count(), rank.dropped_count(),
                      rank.truncated_count(), rank.degraded_count()});
      EXPECT_EQ(rank.seen_count(), rank.filtered_count() + rank.asked_count());
      EXPECT_EQ(rank.asked_count(),
                rank.stored_count() + rank.repeated_count() +
                    rank.dropped_count() + rank.truncated_count() +
                    rank.pending_count() + rank.lost_count());
    }
    return rows;
  }

  // Returns the coverage of a rank, which must exist.
  v1::RankCoverage CoverageOf(int32_t rank) {
    v1::GetCaptureCoverageRequest request;
    request.set_run("run");
    v1::CaptureCoverage coverage;
    EXPECT_TRUE(
        Invoke(*captures_, &Stub::GetCaptureCoverage, request, coverage).ok());
    for (const v1::RankCoverage& found : coverage.ranks()) {
      if (found.rank() == rank) return found;
    }
    ADD_FAILURE() << "rank " << rank;
    return {};
  }

  // The times that Tell reports.
  int64_t recording_ns_ = 0;
  int64_t open_ns_ = 0;
};

TEST_P(CaptureServiceTest, CoverageHasTheRanksThatToldAndThoseThatStored) {
  Producer first("run", 0, 7);
  Producer again("run", 0, 8);
  Producer silent("run", 2, 9);
  Producer filtered("run", 5, 7);
  Ingest(first, {{{.op = "a", .values = {1}}, {.op = "b", .values = {2}}}});
  Ingest(silent, {{{.op = "a", .values = {1}}}});
  Tell(first, 9, 2, 3, 1, 1);
  Tell(again, 5, 1, 2, 0, 6);
  Tell(filtered, 4, 4, 0, 0, 0);
  const std::vector<std::vector<int64_t>> expected = {
      {0, 2, 14, 3, 11, 2, 5, 1, 7},
      // The rank died before it reported the records that it was asked to make.
      {2, 0, 1, 0, 1, 1, 0, 0, 0},
      {5, 1, 4, 4, 0, 0, 0, 0, 0}};
  EXPECT_EQ(Coverage(), expected);
  Tell(first, 9, 2, 3, 1, 1);
  RestartWithStore();
  EXPECT_EQ(Coverage(), expected);
}

TEST_P(CaptureServiceTest, CoverageSaysWhatBecameOfTheRest) {
  Producer first("run", 0, 7);
  Producer again("run", 0, 8);
  Ingest(first, {{{.op = "a", .values = {1}}, {.op = "b", .values = {2}}}});
  Ingest(again, {{{.op = "a", .values = {1}}, {.op = "b", .values = {3}}}});
  Tell(first, 6, 1, 1, 0, 0);
  Tell(again, 2, 0, 0, 0, 0);
  v1::RankCoverage rank = CoverageOf(0);
  EXPECT_EQ(rank.repeated_count(), 2);
  EXPECT_EQ(rank.conflict_count(), 1);
  EXPECT_EQ(rank.lost_count(), 2);
  EXPECT_EQ(rank.pending_count(), 0);
  EXPECT_EQ(rank.stream_state(), v1::STREAM_STATE_FINISHED);
  EXPECT_TRUE(rank.has_streamless_duration());
  v1::SealRunRequest seal;
  seal.set_run("run");
  v1::Run run;
  ASSERT_TRUE(Invoke(*runs_, &v1::RunService::Stub::SealRun, seal, run).ok());
  rank = CoverageOf(0);
  EXPECT_EQ(rank.lost_count(), 2);
  EXPECT_EQ(rank.stream_state(), v1::STREAM_STATE_UNSPECIFIED);
  EXPECT_FALSE(rank.has_streamless_duration());
}

TEST_P(CaptureServiceTest, TimesOfStreamsAddUp) {
  Producer first("run", 0, 7);
  Tell(first, 1, 1, 0, 0, 0);
  EXPECT_FALSE(CoverageOf(0).has_recording_duration()) << "an old client";
  EXPECT_FALSE(CoverageOf(0).has_open_duration());
  recording_ns_ = 1'500'000'000;
  open_ns_ = 20'000'000'000;
  Producer second("run", 0, 8);
  Tell(second, 1, 1, 0, 0, 0);
  Producer third("run", 0, 9);
  Tell(third, 1, 1, 0, 0, 0);
  const v1::RankCoverage rank = CoverageOf(0);
  EXPECT_EQ(rank.recording_duration().seconds(), 3);
  EXPECT_EQ(rank.recording_duration().nanos(), 0);
  EXPECT_EQ(rank.open_duration().seconds(), 40);
  EXPECT_EQ(rank.overhead(), 0.075);
}

TEST_P(CaptureServiceTest, WhatHooksCouldNotRecordIsToldByRank) {
  Producer other("run", 3, 8);
  Ingest(other, {{{.op = "a", .values = {1}}}});
  const std::string text =
      R"({"skipped":[{"reason":"meta","count":5,"op":"root"},)"
      R"({"reason":"again","count":7,"is_harmless":true}]})";
  testing::TestTensor document = testing::MakeTensor(
      "run", 0, "not_recorded/a.json", static_cast<uint64_t>(text.size()));
  document.key.rank = 0;
  document.key.index = "";
  document.key.io = Io::kState;
  document.kind = RecordKind::kDocument;
  std::memcpy(document.bytes.data(), text.data(), text.size());
  testing::TestChunks chunks(/*stream_id=*/7, 0, {document});
  ASSERT_TRUE(store_->log().Append(chunks.span()).ok());

  const v1::RankCoverage told = CoverageOf(0);
  EXPECT_EQ(told.not_recorded_count(), 5);
  ASSERT_EQ(told.not_recorded_size(), 2);
  EXPECT_EQ(told.not_recorded(0).reason(), "meta");
  EXPECT_EQ(told.not_recorded(0).op(), "root");
  EXPECT_TRUE(told.not_recorded(1).is_harmless());
  EXPECT_EQ(CoverageOf(3).not_recorded_count(), 0);
  EXPECT_EQ(CoverageOf(3).not_recorded_size(), 0);
}

TEST_P(CaptureServiceTest, CoverageOfNoRunIsNotFound) {
  v1::GetCaptureCoverageRequest request;
  request.set_run("run");
  v1::CaptureCoverage coverage;
  EXPECT_EQ(
      Outcome(Invoke(*captures_, &Stub::GetCaptureCoverage, request, coverage)),
      "5 RUN_NOT_FOUND");
}

INSTANTIATE_TEST_SUITE_P(Stores, CaptureServiceTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

}  // namespace
}  // namespace msitd::service
