// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protos/status/status.h"
#include "tests/support/fake_chunk_store.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ExactMatcherTest : public ::testing::Test {
 protected:
  // All pairs as `rank/token: golden = target`, in order.
  std::vector<std::string> Pairs(storage::TensorSelector selector = {}) {
    auto matcher = ExactMatcher::Create(store_, "g", "t", std::move(selector));
    EXPECT_TRUE(matcher.ok()) << matcher.status();
    std::vector<std::string> out;
    for (size_t i = 0; i < matcher->group_count(); ++i) {
      const auto group = matcher->Load(i);
      EXPECT_TRUE(group.ok()) << group.status();
      for (const TensorPair& pair : group->pairs) {
        out.push_back(fmt::format("{}/{}: {} = {}", group->rank, group->token,
                                  Text(pair.golden), Text(pair.target)));
      }
    }
    return out;
  }

  static std::string Text(const storage::TensorInfo* tensor) {
    if (tensor == nullptr) return "-";
    return fmt::format("{}.{}.{}.{}@{}", tensor->key.op, tensor->key.call,
                       IoName(tensor->key.io), tensor->key.index,
                       tensor->key.device);
  }

  static RecordedTensor At(std::string op, int32_t rank = 0, int64_t token = 0,
                           int64_t sequence = -1, std::string device = "d") {
    RecordedTensor out = Floats(op, {1});
    out.rank = rank;
    out.token = token;
    out.sequence = sequence;
    out.device = std::move(device);
    return out;
  }

  testing::FakeChunkStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
};

TEST_F(ExactMatcherTest, EveryPartOfTheNameCounts) {
  RecordedTensor tensor = At("op");
  golden_.Record(tensor);
  target_.Record(tensor);
  tensor.call = 1;
  golden_.Record(tensor);
  tensor.io = Io::kInput;
  target_.Record(tensor);
  tensor.index = "1";
  golden_.Record(tensor);
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: op.0.output.0@d = op.0.output.0@d",
                          "0/0: op.1.output.0@d = -", "0/0: op.1.input.1@d = -",
                          "0/0: - = op.1.input.0@d"));
}

TEST_F(ExactMatcherTest, RowsComeByTokenThenRankThenGoldenExecutionOrder) {
  for (const int32_t rank : {1, 0}) {
    for (const int64_t token : {1, 0}) {
      golden_.Record(At("second", rank, token, 20));
      golden_.Record(At("first", rank, token, 10));
      target_.Record(At("second", rank, token, 1));
      target_.Record(At("first", rank, token, 2));
      target_.Record(At("extra2", rank, token, 4));
      target_.Record(At("extra1", rank, token, 3));
    }
  }
  std::vector<std::string> expected;
  for (const std::string_view place : {"0/0", "1/0", "0/1", "1/1"}) {
    for (const std::string_view pair :
         {"first.0.output.0@d = first.0.output.0@d",
          "second.0.output.0@d = second.0.output.0@d",
          "- = extra1.0.output.0@d", "- = extra2.0.output.0@d"}) {
      expected.push_back(fmt::format("{}: {}", place, pair));
    }
  }
  EXPECT_EQ(Pairs(), expected);
}

TEST_F(ExactMatcherTest, TensorsOfOneSequenceAreOrderedByIoAndIndex) {
  for (const auto& [io, index] :
       {std::pair(Io::kOutput, "0"), {Io::kInput, "1"}, {Io::kInput, "0"}}) {
    RecordedTensor tensor = At("op", 0, 0, 7);
    tensor.io = io;
    tensor.index = index;
    golden_.Record(tensor);
  }
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: op.0.input.0@d = -", "0/0: op.0.input.1@d = -",
                          "0/0: op.0.output.0@d = -"));
}

TEST_F(ExactMatcherTest, RankAndTokenThatOneRunLacksAreUnmatched) {
  golden_.Record(At("a", 0, 0));
  golden_.Record(At("a", 1, 0));
  target_.Record(At("a", 0, 0));
  target_.Record(At("a", 0, 5));
  EXPECT_THAT(Pairs(), ElementsAre("0/0: a.0.output.0@d = a.0.output.0@d",
                                   "1/0: a.0.output.0@d = -",
                                   "0/5: - = a.0.output.0@d"));
}

TEST_F(ExactMatcherTest, SingleDevicesMatchWhateverTheirNames) {
  golden_.Record(At("a", 0, 0, -1, "cpu:0"));
  target_.Record(At("a", 0, 0, -1, "npu:3"));
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: a.0.output.0@cpu:0 = a.0.output.0@npu:3"));
}

TEST_F(ExactMatcherTest, SeveralDevicesMustAgree) {
  golden_.Record(At("a", 0, 0, -1, "npu:0"));
  golden_.Record(At("a", 0, 0, -1, "npu:1"));
  target_.Record(At("a", 0, 0, -1, "npu:1"));
  EXPECT_THAT(Pairs(),
              ElementsAre("0/0: a.0.output.0@npu:0 = -",
                          "0/0: a.0.output.0@npu:1 = a.0.output.0@npu:1"));
}

TEST_F(ExactMatcherTest, DevicesAreCountedForEachRankOverAllTokens) {
  // One device at each token, but two in all: they must agree.
  golden_.Record(At("a", 0, 0, -1, "npu:0"));
  golden_.Record(At("a", 0, 1, -1, "npu:1"));
  target_.Record(At("a", 0, 0, -1, "npu:1"));
  // The other rank has one on either side.
  golden_.Record(At("a", 1, 0, -1, "npu:0"));
  target_.Record(At("a", 1, 0, -1, "cpu:0"));
  EXPECT_THAT(
      Pairs(),
      ElementsAre("0/0: a.0.output.0@npu:0 = -", "0/0: - = a.0.output.0@npu:1",
                  "1/0: a.0.output.0@npu:0 = a.0.output.0@cpu:0",
                  "0/1: a.0.output.0@npu:1 = -"));
}

TEST_F(ExactMatcherTest, SelectorNarrowsBothSides) {
  for (RunRecorder* run : {&golden_, &target_}) {
    for (const int64_t token : {0, 1, 2}) {
      run->Record(At("keep", 0, token));
      run->Record(At("drop", 0, token));
      run->Record(At("keep", 1, token));
    }
  }
  storage::TensorSelector selector;
  selector.ranks = {0};
  selector.tokens = {{1, 1}};
  selector.op_patterns = {"k*"};
  EXPECT_THAT(Pairs(selector),
              ElementsAre("0/1: keep.0.output.0@d = keep.0.output.0@d"));
  selector.tokens = {{7, 9}};
  EXPECT_THAT(Pairs(selector), IsEmpty());
}

TEST_F(ExactMatcherTest, RunThatIsGoneIsAnError) {
  ASSERT_TRUE(store_.DeleteRun("t").ok());
  const auto matcher = ExactMatcher::Create(store_, "g", "t", {});
  EXPECT_EQ(Reason(matcher.status()), "RUN_NOT_FOUND");
}

}  // namespace
}  // namespace msitd::compare
