// SPDX-License-Identifier: Apache-2.0
#include "protos/base/error_reason.h"

#include <gtest/gtest.h>

namespace msitd {
namespace {

// tests/tidy checks that every value has its name in the API.
TEST(ErrorReasonTest, NamesAreThoseOfTheApi) {
  EXPECT_EQ(ErrorReasonName(ErrorReason::kChunkMalformed), "CHUNK_MALFORMED");
  EXPECT_EQ(ErrorReasonName(ErrorReason::kPeerRefused), "PEER_REFUSED");
}

TEST(ErrorReasonTest, WhatIsNoReasonHasNoName) {
  EXPECT_EQ(ErrorReasonName(ErrorReason::kUnspecified), "");
  EXPECT_EQ(ErrorReasonName(static_cast<ErrorReason>(255)), "");
}

}  // namespace
}  // namespace msitd
