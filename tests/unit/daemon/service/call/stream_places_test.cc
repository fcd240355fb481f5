// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/stream_places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protos/status/status.h"

namespace msitd::service {
namespace {

class StreamPlacesTest : public ::testing::Test {
 protected:
  // Returns a new caller each time, so that shares have no effect.
  access::Caller NextCaller() {
    return {"uid:" + std::to_string(++caller_), access::Role::kAdmin};
  }

  StreamPlaces::StreamPlace Enter(bool is_local) {
    return *places_.Enter(NextCall(), NextCaller(), is_local);
  }

  // Calls are only accessed when they are late, so the pointer may be invalid.
  grpc_call* NextCall() { return reinterpret_cast<grpc_call*>(++call_); }

  StreamPlaces places_;
  uintptr_t call_ = 0;
  int caller_ = 0;
};

TEST_F(StreamPlacesTest, OneMoreIsRefusedUntilOneEnds) {
  std::vector<StreamPlaces::StreamPlace> taken;
  while (taken.size() < StreamPlaces::kStreamsMax / 4 * 3) {
    taken.push_back(Enter(false));
  }
  const auto refused = places_.Enter(NextCall(), NextCaller(), false);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_TRUE(HasReason(refused.status(), ErrorReason::kRequestsExhausted));
  while (taken.size() < StreamPlaces::kStreamsMax) taken.push_back(Enter(true));
  EXPECT_FALSE(places_.Enter(NextCall(), NextCaller(), true).ok());
  taken.pop_back();
  EXPECT_TRUE(places_.Enter(NextCall(), NextCaller(), true).ok());
}

TEST_F(StreamPlacesTest, OneCallerLeavesStreamsToOthersAndToAdmins) {
  const access::Caller greedy{"uid:1", access::Role::kReader};
  std::vector<StreamPlaces::StreamPlace> taken;
  absl::Status refused;
  while (refused.ok()) {
    auto place = places_.Enter(NextCall(), greedy, true);
    refused = place.status();
    if (place.ok()) taken.push_back(*std::move(place));
  }
  EXPECT_TRUE(HasReason(refused, ErrorReason::kRequestsExhausted));
  EXPECT_EQ(taken.size(), StreamPlaces::kStreamsMax / 16 * 11);
  EXPECT_TRUE(
      places_.Enter(NextCall(), {"uid:2", access::Role::kReader}, true).ok());
  EXPECT_TRUE(
      places_.Enter(NextCall(), {"uid:0", access::Role::kAdmin}, true).ok());
}

TEST_F(StreamPlacesTest, MessagesOnTheirWayAreBoundedInBytes) {
  constexpr size_t kMessageBytes = size_t{4} << 20;
  std::vector<StreamPlaces::StreamPlace> taken;
  absl::Status status;
  while (status.ok()) {
    taken.push_back(Enter(true));
    status = taken.back().BeginWrite(kMessageBytes);
  }
  EXPECT_EQ(taken.size() - 1,
            StreamPlaces::kBytesMax / StreamPlaces::BytesOf(kMessageBytes));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_TRUE(HasReason(status, ErrorReason::kRequestsExhausted));
  EXPECT_TRUE(taken.back().BeginWrite(StreamPlaces::kSmallBytes).ok());
  taken.back().EndWrite();
  // The messages are sent one after the other.
  for (size_t i = 0; i + 1 < taken.size(); ++i) {
    taken[i].EndWrite();
    EXPECT_TRUE(taken.back().BeginWrite(kMessageBytes).ok());
    taken.back().EndWrite();
  }
}

TEST_F(StreamPlacesTest, MessagesOfOneCallerLeaveMemoryToOthers) {
  constexpr size_t kMessageBytes = size_t{1} << 20;
  const access::Caller greedy{"uid:1", access::Role::kReader};
  std::vector<StreamPlaces::StreamPlace> taken;
  absl::Status status;
  while (status.ok()) {
    taken.push_back(*places_.Enter(NextCall(), greedy, true));
    status = taken.back().BeginWrite(kMessageBytes);
  }
  EXPECT_TRUE(HasReason(status, ErrorReason::kRequestsExhausted));
  EXPECT_LT(taken.size() * StreamPlaces::BytesOf(kMessageBytes),
            StreamPlaces::kBytesMax / 4 * 3);
  auto other =
      places_.Enter(NextCall(), {"uid:2", access::Role::kReader}, true);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(other->BeginWrite(kMessageBytes).ok());
  other->EndWrite();
  taken[1].EndWrite();
  EXPECT_TRUE(taken.back().BeginWrite(kMessageBytes).ok());
  for (StreamPlaces::StreamPlace& place : taken) {
    if (&place != &taken[1]) place.EndWrite();
  }
}

TEST_F(StreamPlacesTest, SingleMessageMayBeOfAnySize) {
  StreamPlaces::StreamPlace place = Enter(false);
  EXPECT_TRUE(place.BeginWrite(StreamPlaces::kBytesMax).ok());
  place.EndWrite();
}

}  // namespace
}  // namespace msitd::service
