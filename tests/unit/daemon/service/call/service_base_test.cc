// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/service/call/status_mapping.h"
#include "daemon/service/call/task_pool.h"
#include "daemon/service/proto_convert.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "protos/base/limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

using ::testing::ElementsAre;

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status out;
  EXPECT_TRUE(out.ParseFromString(status.error_details()));
  return out;
}

TEST(StatusMappingTest, OkHasNoDetails) {
  const grpc::Status status = ToGrpcStatus(absl::OkStatus());
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.error_details(), "");
}

TEST(StatusMappingTest, CarriesReasonAndMetadata) {
  const grpc::Status status =
      ToGrpcStatus(WithMetadata(WithReason(absl::OutOfRangeError("chunk 4"),
                                           ErrorReason::kChunkOutOfOrder),
                                "received", "4"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(status.error_message(), "chunk 4");
  const google::rpc::Status details = DetailsOf(status);
  EXPECT_EQ(details.code(), 11);
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "CHUNK_OUT_OF_ORDER");
  EXPECT_EQ(info.domain(), "msitd");
  EXPECT_EQ(info.metadata().at("received"), "4");
}

TEST(StatusMappingTest, WhatMayBeRetriedSaysWhen) {
  for (const absl::Status& status :
       {absl::ResourceExhaustedError("x"), absl::UnavailableError("x")}) {
    const google::rpc::Status details = DetailsOf(ToGrpcStatus(status));
    ASSERT_EQ(details.details_size(), 1);
    google::rpc::RetryInfo retry;
    ASSERT_TRUE(details.details(0).UnpackTo(&retry));
    EXPECT_GT(retry.retry_delay().nanos(), 0);
  }
  EXPECT_EQ(DetailsOf(ToGrpcStatus(absl::InternalError("x"))).details_size(),
            0);
}

TEST(StatusMappingTest, ForeignTextFitsIntoTrailers) {
  std::string text = "name '";
  for (int i = 0; i < 4000; ++i) text += "ä";
  const grpc::Status cut = ToGrpcStatus(absl::InvalidArgumentError(text));
  EXPECT_LE(cut.error_message().size(), 1024u);
  EXPECT_TRUE(IsValidUtf8(cut.error_message()));
  EXPECT_TRUE(text.starts_with(cut.error_message()));
  const grpc::Status binary =
      ToGrpcStatus(absl::InvalidArgumentError("\xff\xfe ok"));
  EXPECT_EQ(binary.error_message(), "?? ok");
}

TEST(TaskPoolTest, RunsEveryTaskOnce) {
  std::atomic<int> count = 0;
  {
    TaskPool pool("test", 3, 1000);
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(pool.Submit([&] { ++count; }).ok());
    }
  }
  EXPECT_EQ(count, 500);
}

TEST(TaskPoolTest, FullQueueRefusesTasksButNotNextSteps) {
  TaskPool pool("test", 1, 1);
  Mutex mu;
  mu.Lock();
  std::atomic<bool> started = false;
  std::atomic<int> count = 0;
  ASSERT_TRUE(pool.Submit([&] {
                    started = true;
                    MutexLock lock(mu);
                    ++count;
                  })
                  .ok());
  while (!started) std::this_thread::yield();
  ASSERT_TRUE(pool.Submit([&] { ++count; }).ok());
  const absl::Status refused = pool.Submit([&] { ++count; });
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused), "REQUESTS_EXHAUSTED");
  EXPECT_TRUE(pool.SubmitNextStep([&] { ++count; }).ok());
  mu.Unlock();
  pool.Stop();
  EXPECT_EQ(count, 3);
}

TEST(TaskPoolTest, OneCallerDoesNotFillTheQueueForAllOthers) {
  const access::Caller greedy{"uid:1", access::Role::kReader};
  std::atomic<bool> may_end = false;
  TaskPool pool("test", 1, 32);
  ASSERT_TRUE(pool.Submit([&] {
                    while (!may_end) std::this_thread::yield();
                  })
                  .ok());
  int count = 0;
  absl::Status refused;
  while (refused.ok()) {
    refused = pool.Submit(greedy, [] {});
    if (refused.ok()) ++count;
  }
  EXPECT_EQ(Reason(refused), "REQUESTS_EXHAUSTED");
  EXPECT_EQ(count, 22);
  EXPECT_TRUE(pool.Submit({"uid:2", access::Role::kReader}, [] {}).ok());
  EXPECT_TRUE(pool.Submit({"uid:0", access::Role::kAdmin}, [] {}).ok());
  may_end = true;
  // Requests that have run are no longer counted.
  while (pool.Count().waiting_count > 0) std::this_thread::yield();
  EXPECT_TRUE(pool.Submit(greedy, [] {}).ok());
}

TEST(TaskPoolTest, DrainingEndsWithTheLastCallOrAtItsDeadline) {
  TaskPool pool("test", 1, 1);
  std::optional<TaskPool::CallCount> first(pool);
  std::optional<TaskPool::CallCount> second(pool);
  pool.Drain(std::chrono::steady_clock::now());
  EXPECT_EQ(Reason(pool.Submit([] {})), "NOT_SERVING");
  // The current calls run to completion.
  EXPECT_TRUE(pool.SubmitNextStep([&] {
                    first.reset();
                    EXPECT_TRUE(
                        pool.SubmitNextStep([&] { second.reset(); }).ok());
                  })
                  .ok());
  pool.Drain(std::chrono::steady_clock::time_point::max());
  pool.Stop();
}

TEST(TaskPoolTest, AnswersOfStrangersLeaveRoomForLocalOnes) {
  TaskPool pool("test", 1, 1, 400);
  TaskPool::CallCount first(pool);
  TaskPool::CallCount stranger(pool);
  TaskPool::CallCount local(pool);
  const access::Caller far{"cert:a", access::Role::kReader};
  const access::Caller near{"uid:1", access::Role::kReader};
  EXPECT_TRUE(first.HoldAnswer(250, far, /*is_local=*/false).ok());
  EXPECT_EQ(Reason(stranger.HoldAnswer(51, far, /*is_local=*/false)),
            "REQUESTS_EXHAUSTED");
  EXPECT_TRUE(local.HoldAnswer(150, near, /*is_local=*/true).ok());
  EXPECT_EQ(Reason(stranger.HoldAnswer(1, near, /*is_local=*/true)),
            "REQUESTS_EXHAUSTED");
}

TEST(TaskPoolTest, AnswersOfOneCallerLeaveRoomForOthers) {
  constexpr size_t kAnswerBytes = 10;
  const access::Caller greedy{"uid:1", access::Role::kReader};
  const access::Caller other{"uid:2", access::Role::kReader};
  TaskPool pool("test", 1, 1, 1600);
  std::list<TaskPool::CallCount> calls;
  absl::Status refused;
  while (refused.ok()) {
    calls.emplace_back(pool);
    refused = calls.back().HoldAnswer(kAnswerBytes, greedy, true);
  }
  EXPECT_EQ(Reason(refused), "REQUESTS_EXHAUSTED");
  // The first response is always admitted.
  EXPECT_EQ(calls.size() - 1, 1 + 1100 / kAnswerBytes);
  EXPECT_TRUE(
      calls.emplace_back(pool).HoldAnswer(kAnswerBytes, other, true).ok());
  // Space is released with the calls. The space of one call now belongs to the
  // other caller.
  calls.erase(std::next(calls.begin()));
  calls.erase(std::next(calls.begin()));
  EXPECT_TRUE(
      calls.emplace_back(pool).HoldAnswer(kAnswerBytes, greedy, true).ok());
}

TEST(TaskPoolTest, StoppedPoolIsNotServing) {
  TaskPool pool("test", 1, 1);
  pool.Stop();
  pool.Stop();
  for (const absl::Status& status :
       {pool.Submit([] {}), pool.SubmitNextStep([] {})}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Reason(status), "NOT_SERVING");
  }
}

TEST(ProtoConvertTest, FilterBecomesASelector) {
  v1::TensorFilter filter;
  filter.add_ranks(3);
  filter.add_devices("npu:1");
  filter.add_tokens()->set_first(2);
  filter.mutable_tokens(0)->set_last(std::numeric_limits<int64_t>::max());
  filter.add_op_patterns("a*");
  filter.add_ios(v1::IO_WEIGHT);
  filter.add_ios(v1::IO_WEIGHT);
  const auto selector = ToSelector(filter);
  ASSERT_TRUE(selector.ok());
  EXPECT_THAT(selector->ranks, ElementsAre(3));
  EXPECT_THAT(selector->devices, ElementsAre("npu:1"));
  ASSERT_EQ(selector->tokens.size(), 1u);
  EXPECT_EQ(selector->tokens[0].first, 2);
  EXPECT_EQ(selector->tokens[0].last, kTokenMax);
  EXPECT_THAT(selector->op_patterns, ElementsAre("a*"));
  EXPECT_THAT(selector->ios, ElementsAre(Io::kWeight));
}

TEST(ProtoConvertTest, BadFieldIsNamed) {
  v1::TensorFilter filter;
  filter.add_ranks(0);
  filter.add_ranks(-4);
  const absl::Status status = ToSelector(filter).status();
  EXPECT_EQ(Reason(status), "FIELD_INVALID");
  EXPECT_EQ(Metadata(status).at("field"), "filter.ranks[1]");
}

TEST(ProtoConvertTest, PageSizesAreClampedAbove) {
  EXPECT_EQ(*ToPageSize(0), 100);
  EXPECT_EQ(*ToPageSize(7), 7);
  EXPECT_EQ(*ToPageSize(5000), 1000);
  EXPECT_FALSE(ToPageSize(-1).ok());
}

}  // namespace
}  // namespace msitd::service
