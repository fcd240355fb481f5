// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/peer_stream.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace msitd::peers {
namespace {

using ::testing::IsNull;

// The last reference to a channel must not be released on a gRPC thread.
TEST(PeerStreamTest, ThePeerGoesAfterItsCalls) {
  for (int i = 0; i < 50; ++i) {
    auto channel = grpc::CreateChannel("unix:/nobody/listens",
                                       grpc::InsecureChannelCredentials());
    const std::weak_ptr<grpc::Channel> watched = channel;
    {
      Peer peer("unix:/nobody/listens",
                std::make_shared<PeerChannel>(std::move(channel)),
                std::chrono::seconds(1));
      PeerStream<v1::ReadPartsRequest, v1::ReadPartsResponse> stream(
          peer,
          &v1::RunReaderService::StubInterface::async_interface::ReadParts,
          v1::ReadPartsRequest());
    }
    EXPECT_THAT(watched.lock(), IsNull());
  }
}

}  // namespace
}  // namespace msitd::peers
