// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/first_reads.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "protos/status/status.h"

namespace msitd::service {
namespace {

class FakeReader final : public FirstReads::Reader {
 public:
  void StartFirstRead() override { has_started = true; }
  bool has_started = false;
};

// The timeouts are shorter than the limit of any call, so none is cancelled.
class FirstReadsTest : public ::testing::Test {
 protected:
  FakeReader& Enter(const std::string& peer) {
    readers_.push_back(std::make_unique<FakeReader>());
    EXPECT_TRUE(reads_.Enter(*readers_.back(), nullptr, peer, {}).ok());
    return *readers_.back();
  }

  FirstReads reads_;
  std::vector<std::unique_ptr<FakeReader>> readers_;
};

TEST_F(FirstReadsTest, WhoGivesUpAndComesAgainHasOneTurnLikeOthers) {
  std::vector<FakeReader*> active;
  for (size_t i = 0; i < FirstReads::kReadsMax; ++i) {
    active.push_back(&Enter("ipv4:10.0.0.1:" + std::to_string(i)));
    EXPECT_TRUE(active.back()->has_started);
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(reads_.Abandon(Enter("ipv4:10.0.0.2:1")));
  }
  const FakeReader& greedy = Enter("ipv4:10.0.0.2:1");
  const FakeReader& greedier = Enter("ipv4:10.0.0.2:1");
  const FakeReader& other = Enter("ipv4:10.0.0.3:1");
  EXPECT_FALSE(greedy.has_started);
  reads_.Leave(*active[0]);
  EXPECT_TRUE(greedy.has_started);
  reads_.Leave(*active[1]);
  EXPECT_TRUE(other.has_started);
  EXPECT_FALSE(greedier.has_started);
  reads_.Leave(*active[2]);
  EXPECT_TRUE(greedier.has_started);
}

TEST_F(FirstReadsTest, OneCallerDoesNotKeepOthersFromWaiting) {
  const access::Caller greedy{"cert:a", access::Role::kReader};
  const auto enter = [this](const std::string& peer,
                            const access::Caller& caller) {
    readers_.push_back(std::make_unique<FakeReader>());
    return reads_.Enter(*readers_.back(), nullptr, peer, caller);
  };
  for (size_t i = 0; i < FirstReads::kReadsMax; ++i) {
    ASSERT_TRUE(enter("ipv4:10.0.0.1:" + std::to_string(i), greedy).ok());
  }
  size_t count = 0;
  absl::Status refused;
  while (refused.ok()) {
    refused = enter("ipv4:10.0.0.1:" + std::to_string(count % 64), greedy);
    count += refused.ok();
  }
  EXPECT_TRUE(HasReason(refused, ErrorReason::kRequestsExhausted));
  EXPECT_EQ(count, FirstReads::kWaitingMax / 16 * 11);
  EXPECT_TRUE(enter("ipv4:10.0.0.2:1", {"cert:b", access::Role::kReader}).ok());
  EXPECT_TRUE(enter("unix:", greedy).ok());
}

}  // namespace
}  // namespace msitd::service
