// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/stream_places.h"

#include <gtest/gtest.h>

#include <vector>

#include "protos/status/status.h"

namespace msitd::service {
namespace {

class StreamPlacesTest : public ::testing::Test {
 protected:
  StreamPlaces::Place Enter(bool is_local) {
    return *places_.Enter(NextCall(), is_local);
  }

  // Nothing looks at a call before it is late.
  grpc_call* NextCall() { return reinterpret_cast<grpc_call*>(++call_); }

  StreamPlaces places_;
  uintptr_t call_ = 0;
};

TEST_F(StreamPlacesTest, OneMoreIsRefusedUntilOneEnds) {
  std::vector<StreamPlaces::Place> taken;
  while (taken.size() < StreamPlaces::kStreamsMax / 4 * 3) {
    taken.push_back(Enter(false));
  }
  const auto refused = places_.Enter(NextCall(), false);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_TRUE(HasReason(refused.status(), ErrorReason::kRequestsExhausted));
  while (taken.size() < StreamPlaces::kStreamsMax) taken.push_back(Enter(true));
  EXPECT_FALSE(places_.Enter(NextCall(), true).ok());
  taken.pop_back();
  EXPECT_TRUE(places_.Enter(NextCall(), true).ok());
}

TEST_F(StreamPlacesTest, MessagesOnTheirWayAreBoundedInBytes) {
  constexpr size_t kMessageBytes = size_t{4} << 20;
  std::vector<StreamPlaces::Place> taken;
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
  // One after the other, as they are taken.
  for (size_t i = 0; i + 1 < taken.size(); ++i) {
    taken[i].EndWrite();
    EXPECT_TRUE(taken.back().BeginWrite(kMessageBytes).ok());
    taken.back().EndWrite();
  }
}

TEST_F(StreamPlacesTest, SingleMessageMayBeOfAnySize) {
  StreamPlaces::Place place = Enter(false);
  EXPECT_TRUE(place.BeginWrite(StreamPlaces::kBytesMax).ok());
  place.EndWrite();
}

}  // namespace
}  // namespace msitd::service
