// SPDX-License-Identifier: Apache-2.0
// Tests of the explanation for runs that chose different tokens.
#include "daemon/compare/job/token_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenChoiceTest : public testing::EitherStoreTest {
 protected:
  static RecordedTensor Ids(int64_t token, const std::vector<int64_t>& ids,
                            std::vector<int64_t> shape) {
    RecordedTensor out;
    out.op = "root";
    out.io = Io::kInput;
    out.dtype = DType::kInt64;
    out.bytes = BytesOf(ids);
    out.shape = std::move(shape);
    out.token = token;
    return out;
  }

  static RecordedTensor Logits(int64_t token, const std::vector<float>& values,
                               std::vector<int64_t> shape) {
    RecordedTensor out = Floats("root", values);
    out.shape = std::move(shape);
    out.token = token;
    return out;
  }

  std::string Choice() {
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(observer.comparison.has_input_difference());
    return observer.comparison.input_difference().choice();
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
};

MSITD_ON_BOTH_STORES(TokenChoiceTest);

// The logits of the last position of the second sequence decide.
TEST_P(TokenChoiceTest, ANearTieIsTold) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    const float change = run == &golden_ ? 0 : 2e-6F;
    run->Record(Ids(0, {1, 2, 3, 4}, {2, 2}));
    run->Record(Logits(0, {5, 0, 0, 5, 0, 0, 5, 0, 0, 1, 1.000001F, 1 + change},
                       {2, 2, 3}));
    run->Record(Ids(1, {1, run == &golden_ ? 1 : 2}, {2, 1}));
  }
  const std::string choice = Choice();
  EXPECT_THAT(choice, StartsWith("at token 0, golden chose 1 over 2 by "));
  EXPECT_THAT(choice, HasSubstr("target chose 2 over 1 by "));
  EXPECT_THAT(choice, HasSubstr("agree within the tolerance: a near tie (KL "));
}

TEST_P(TokenChoiceTest, LogitsThatDifferAreTold) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    run->Record(Ids(0, {1}, {1, 1}));
    run->Record(Logits(0, {0, 3, run == &golden_ ? 1.0F : 5.0F}, {1, 1, 3}));
    run->Record(Ids(1, {run == &golden_ ? 1 : 2}, {1, 1}));
  }
  const std::string choice = Choice();
  EXPECT_THAT(choice, HasSubstr("golden chose 1 over 2 by 2, target chose 2 "
                                "over 1 by 2; their logits differ already"));
}

TEST_P(TokenChoiceTest, ASampledTokenIsTold) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    run->Record(Ids(0, {1}, {1, 1}));
    run->Record(Logits(0, {0, 3, 1}, {1, 3}));
    run->Record(Ids(1, {run == &golden_ ? 1 : 0}, {1, 1}));
  }
  EXPECT_THAT(Choice(),
              HasSubstr("target chose 0, which is not its largest logit; their "
                        "logits agree within the tolerance (KL"));
}

// Inputs that no run chose by its logits, as in training.
TEST_P(TokenChoiceTest, NothingIsSaidOfTokensThatWereGiven) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    run->Record(Ids(0, {1}, {1, 1}));
    run->Record(Logits(0, {0, 3, 1}, {1, 3}));
    run->Record(Ids(1, {run == &golden_ ? 2 : 0}, {1, 1}));
  }
  EXPECT_EQ(Choice(), "");
}

// A prompt that differs was not chosen.
TEST_P(TokenChoiceTest, NothingIsSaidWithoutLogits) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    run->Record(Ids(0, {1, run == &golden_ ? 2 : 3}, {1, 2}));
    run->Record(Logits(0, {0, 3, 1}, {1, 1, 3}));
  }
  EXPECT_EQ(Choice(), "");
}

TEST_P(TokenChoiceTest, NothingIsSaidOfTokensBeyondTheLogits) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    run->Record(Ids(0, {1}, {1, 1}));
    run->Record(Logits(0, {0, 3, 1}, {1, 1, 3}));
    run->Record(Ids(1, {run == &golden_ ? 1 : 7}, {1, 1}));
  }
  EXPECT_EQ(Choice(), "");
}

}  // namespace
}  // namespace msitd::compare
