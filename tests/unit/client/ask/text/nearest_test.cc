// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace msitd::ask {
namespace {

const std::vector<std::string> kNouns = {"run",  "tensor",     "compare",
                                         "node", "completion", "capture"};
const std::vector<std::string> kVerbs = {"list",   "get",    "create", "seal",
                                         "retain", "delete", "rows"};

TEST(NearestTest, SlipsAreFound) {
  EXPECT_EQ(Nearest("rnu", kNouns), "run");
  EXPECT_EQ(Nearest("comapre", kNouns), "compare");
  EXPECT_EQ(Nearest("Tensor", kNouns), "tensor");
  EXPECT_EQ(Nearest("tensors", kNouns), "tensor");
  EXPECT_EQ(Nearest("comp", kNouns), "compare");
  EXPECT_EQ(Nearest("ls", kVerbs), "list");
  EXPECT_EQ(Nearest("del", kVerbs), "delete");
  const std::vector<std::string> flags = {"--tol", "--tokens", "--endpoint"};
  EXPECT_EQ(Nearest("--tolerance", flags), "--tol");
  EXPECT_EQ(Nearest("--endpont", flags), "--endpoint");
}

TEST(NearestTest, OtherWordsAreNot) {
  for (const char* word : {"", "x", "frob", "weather", "42"}) {
    EXPECT_EQ(Nearest(word, kNouns), "") << word;
  }
  EXPECT_EQ(Nearest("run", {}), "");
  EXPECT_EQ(Nearest(std::string(1000, 'r'), kNouns), "");
}

TEST(NearestTest, TheQuestionIsEmptyWithoutAnAnswer) {
  EXPECT_EQ(DidYouMean("rnu", kNouns), "; did you mean run?");
  EXPECT_EQ(DidYouMean("frob", kNouns), "");
}

}  // namespace
}  // namespace msitd::ask
