// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/fair_shares.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "protos/status/status.h"

namespace msitd::access {
namespace {

FairShares::Limit Of64() {
  return {.what = "seats",
          .capacity = 64,
          .reason = ErrorReason::kStreamsExhausted};
}

Caller Writer(std::string name) { return {std::move(name), Role::kWriter}; }
Caller Admin(std::string name) { return {std::move(name), Role::kAdmin}; }

// Acquires one unit after another until it is refused.
std::vector<FairShares::Grant> AcquireAll(FairShares& shares,
                                          const Caller& caller) {
  std::vector<FairShares::Grant> grants;
  while (true) {
    auto grant = shares.Acquire(caller);
    if (!grant.ok()) return grants;
    grants.push_back(*std::move(grant));
  }
}

TEST(FairSharesTest, ACallerThatIsAloneHasElevenOfSixteenParts) {
  FairShares shares(Of64());
  EXPECT_EQ(AcquireAll(shares, Writer("a")).size(), 44);
}

TEST(FairSharesTest, AnAdminLeavesRoomForNewcomersToo) {
  FairShares shares(Of64());
  EXPECT_EQ(AcquireAll(shares, Admin("root")).size(), 48);
}

TEST(FairSharesTest, NewcomersFindRoomWhateverOthersHold) {
  FairShares shares(Of64());
  const auto hog = AcquireAll(shares, Writer("hog"));
  std::vector<std::vector<FairShares::Grant>> newcomers;
  for (const char* name : {"b", "c", "d", "e"}) {
    newcomers.push_back(AcquireAll(shares, Writer(name)));
    EXPECT_EQ(newcomers.back().size(), 4) << name;
  }
  EXPECT_EQ(shares.used(), 60);
  EXPECT_FALSE(shares.Acquire(Writer("f")).ok());
  EXPECT_EQ(AcquireAll(shares, Admin("root")).size(), 4);
}

TEST(FairSharesTest, WhatIsReleasedCanBeAcquiredAgain) {
  FairShares shares(Of64());
  {
    const auto grants = AcquireAll(shares, Writer("a"));
    EXPECT_EQ(shares.used(), 44);
  }
  EXPECT_EQ(shares.used(), 0);
  EXPECT_EQ(AcquireAll(shares, Writer("a")).size(), 44);
}

TEST(FairSharesTest, AGrantIsReleasedOnce) {
  FairShares shares(Of64());
  auto first = shares.Acquire(Writer("a"), 3);
  ASSERT_TRUE(first.ok());
  FairShares::Grant second = *std::move(first);
  EXPECT_EQ(second.amount(), 3);
  EXPECT_EQ(shares.used(), 3);
  second.Release();
  second.Release();
  EXPECT_EQ(shares.used(), 0);
  EXPECT_EQ(second.amount(), 0);
}

TEST(FairSharesTest, AnAssignedGrantReleasesWhatItHad) {
  FairShares shares(Of64());
  FairShares::Grant grant = *shares.Acquire(Writer("a"), 2);
  grant = *shares.Acquire(Writer("b"), 5);
  EXPECT_EQ(shares.used(), 5);
}

TEST(FairSharesTest, AGrantMayOutliveItsShares) {
  FairShares::Grant grant;
  {
    FairShares shares(Of64());
    grant = *shares.Acquire(Writer("a"));
  }
  grant.Release();
}

TEST(FairSharesTest, ARefusalSaysWhoHoldsHowMuch) {
  FairShares shares(Of64());
  const auto grants = AcquireAll(shares, Writer("uid:7"));
  const absl::Status refused = shares.Acquire(Writer("uid:7")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused), "STREAMS_EXHAUSTED");
  EXPECT_EQ(Message(refused),
            "44 of 64 seats are in use, 44 by uid:7; the rest is kept for "
            "other callers");
  EXPECT_EQ(Metadata(refused)["limit"], "44");
}

TEST(FairSharesTest, SmallLimitsAreNotDivided) {
  FairShares shares({.what = "seats", .capacity = 7});
  EXPECT_EQ(AcquireAll(shares, Writer("a")).size(), 7);
}

TEST(FairSharesTest, AmountsAreDividedLikeUnits) {
  FairShares shares({.what = "bytes", .capacity = 1 << 20});
  EXPECT_FALSE(shares.Acquire(Writer("a"), 1 << 20).ok());
  EXPECT_FALSE(shares.Acquire(Writer("a"), UINT64_MAX).ok());
  const auto large = shares.Acquire(Writer("a"), (1 << 20) / 16 * 11);
  EXPECT_TRUE(large.ok());
  EXPECT_FALSE(shares.Acquire(Writer("a"), 1).ok());
  EXPECT_FALSE(shares.Acquire(Writer("b"), (1 << 20) / 8).ok());
  EXPECT_TRUE(shares.Acquire(Writer("b"), (1 << 20) / 16).ok());
}

}  // namespace
}  // namespace msitd::access
