// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/spelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::msit_command {
namespace {

using testing::ElementsAre;

class SpellingTest : public testing::Test {
 protected:
  SpellingTest() {
    spelling_.Add("--golden-path", "-gp");
    spelling_.Add("--my-path", "-mp");
    spelling_.Add("--my-other", "");
  }

  Spelling spelling_;
};

TEST_F(SpellingTest, TakesLongNamesBehindOneDash) {
  EXPECT_THAT(spelling_.Rewrite({"-gp", "a", "-mp=b"}),
              ElementsAre("--golden-path", "a", "--my-path=b"));
}

TEST_F(SpellingTest, TakesTheBeginningOfOneName) {
  EXPECT_THAT(spelling_.Rewrite({"--gol=a", "--my-p", "b"}),
              ElementsAre("--golden-path=a", "--my-path", "b"));
  EXPECT_THAT(spelling_.Rewrite({"--my"}), ElementsAre("--my"));
}

TEST_F(SpellingTest, LeavesAllElse) {
  EXPECT_THAT(spelling_.Rewrite({"gp", "-x", "--", "-gp"}),
              ElementsAre("gp", "-x", "--", "-gp"));
}

}  // namespace
}  // namespace msitd::msit_command
