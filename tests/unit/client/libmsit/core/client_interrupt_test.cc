// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "tests/unit/client/libmsit/core/client_fixture.h"

// Tests of calls that wait for an inactive daemon, and of a host that
// interrupts them.
namespace msitd::libmsit {
namespace {

// Minimum number of times that a host is queried before it interrupts.
constexpr int kQuestions = 2;

class ClientInterruptTest : public ClientTest {
 protected:
  ClientInterruptTest() {
    options_.interrupt = {&IsInterrupted, this};
    options_.buffer_bytes = 2 * kSlotBytes;
    daemon_.StopAcknowledging();
  }

  void OpenAndFill() {
    ASSERT_TRUE(Open().ok());
    FillSlots();
    question_count_ = 0;
  }

  static int32_t IsInterrupted(void* test) {
    auto* const self = static_cast<ClientInterruptTest*>(test);
    return ++self->question_count_ > kQuestions ? 1 : 0;
  }

  std::atomic<int> question_count_{0};
};

TEST_F(ClientInterruptTest, EndsOpen) {
  daemon_.IgnoreOpening();
  EXPECT_EQ(Open().code, MSIT_ERROR_INTERRUPTED);
  EXPECT_EQ(client_, nullptr);
}

TEST_F(ClientInterruptTest, EndsARecordWhichIsDropped) {
  OpenAndFill();
  EXPECT_EQ(Record("late", 10).code, MSIT_ERROR_INTERRUPTED);
  EXPECT_EQ(client_->counters().dropped_count, 1u);
}

TEST_F(ClientInterruptTest, RecordThatWasInterruptedLetsTheNextOnesWait) {
  OpenAndFill();
  EXPECT_EQ(Record("late", 10).code, MSIT_ERROR_INTERRUPTED);
  question_count_ = 0;
  EXPECT_EQ(Record("later", 10).code, MSIT_ERROR_INTERRUPTED);
}

TEST_F(ClientInterruptTest, EndsFlushAndLosesNothing) {
  OpenAndFill();
  EXPECT_EQ(client_->Flush(kLong).code, MSIT_ERROR_INTERRUPTED);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
  question_count_ = -1'000'000;
  daemon_.CommitAll();
  EXPECT_TRUE(client_->Flush(kLong).ok());
}

TEST_F(ClientInterruptTest, EndsFlushThoughAcknowledgementsComeAllTheTime) {
  OpenAndFill();
  std::atomic<bool> is_over = false;
  // Repeats old acknowledgements, so that the flush makes no progress.
  std::thread busy([&] {
    while (!is_over) daemon_.Commit(0);
  });
  EXPECT_EQ(client_->Flush(kLong).code, MSIT_ERROR_INTERRUPTED);
  is_over = true;
  busy.join();
}

TEST_F(ClientInterruptTest, EndsCloseWhichDropsTheRest) {
  OpenAndFill();
  EXPECT_EQ(client_->Close(kLong).code, MSIT_ERROR_INTERRUPTED);
  EXPECT_EQ(client_->counters().dropped_count, 2u);
  EXPECT_TRUE(client_->Close(kLong).ok());
}

TEST_F(ClientInterruptTest, EndsTheGoodbyeOfCloseToo) {
  daemon_.CommitAll();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record("op", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  daemon_.IgnoreFinish();
  question_count_ = 0;
  EXPECT_EQ(client_->Close(kLong).code, MSIT_ERROR_INTERRUPTED);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(ClientInterruptTest, IsNotAskedByCallsThatNeedNotWait) {
  daemon_.CommitAll();
  ASSERT_TRUE(Open().ok());
  question_count_ = 0;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Record("op", 10).ok());
  EXPECT_EQ(question_count_, 0);
}

}  // namespace
}  // namespace msitd::libmsit
