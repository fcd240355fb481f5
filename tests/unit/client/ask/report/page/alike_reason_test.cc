// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/alike_reason.h"

#include <gtest/gtest.h>

namespace msitd::ask {
namespace {

std::string Alike(std::string_view reason) {
  return AlikeReason(reason, {"tp1", "tp10", "2", "a 3"});
}

TEST(AlikeReasonTest, NumbersThatStandAloneAreLeftOut) {
  EXPECT_EQ(Alike("rank 3 has no such tensor"),
            Alike("rank 12 has no such tensor"));
  EXPECT_EQ(Alike("shape: target [1,2], golden [3,4]"),
            "shape: target [N,N], golden [N,N]");
  EXPECT_EQ(Alike("error 1.5 against 2"), "error N against N");
  EXPECT_EQ(Alike("7"), "N");
  EXPECT_EQ(Alike(""), "");
}

TEST(AlikeReasonTest, NumbersOfRunsStay) {
  for (const std::string_view name : {"tp1", "tp10", "2", "a 3"}) {
    const std::string reason = "only in run " + std::string(name);
    EXPECT_EQ(Alike(reason), reason);
    EXPECT_EQ(Alike(reason + "; ranks 0 and 1 have no such tensor"),
              reason + "; ranks N and N have no such tensor");
  }
}

TEST(AlikeReasonTest, NumbersOfOtherNamesStay) {
  for (const std::string_view reason :
       {"layers.0.mlp", "only in run tp7", "2x4", "root-5", "unix:/tmp/3/s",
        "float8_e4m3fn", "3rd"}) {
    EXPECT_EQ(Alike(reason), reason);
  }
}

}  // namespace
}  // namespace msitd::ask
