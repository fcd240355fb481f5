// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "protos/capture/capture_policy.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

// Tests of the records that a client sends under a capture policy.
namespace msitd::libmsit {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class ClientCaptureTest : public ClientTest {
 protected:
  // Returns a rule for ops that match `pattern`.
  static capture::Rule Rule(capture::Level level, const std::string& pattern) {
    capture::Rule rule;
    rule.level = level;
    rule.tensors.op_patterns = {pattern};
    return rule;
  }

  void SetPolicy(uint64_t revision, int64_t first_token,
                 std::vector<capture::Rule> rules) {
    ASSERT_TRUE(
        capture::Add({revision, first_token, std::move(rules)}, policies_));
    daemon_.SetPolicy(capture::Encode(policies_));
  }

  // Returns the ops that have arrived. Ops without bytes are in brackets, and
  // ops to be sampled are between bars.
  std::vector<std::string> Ops() {
    std::vector<std::string> ops;
    for (const Arrived& arrived : Arrivals()) {
      const std::string& op = arrived.key.op;
      switch (arrived.kept) {
        case chunk::Kept::kAll:
          ops.push_back(op);
          break;
        case chunk::Kept::kSample:
          ops.push_back("|" + op + "|");
          break;
        case chunk::Kept::kNothing:
          ops.push_back("(" + op + ")");
          break;
      }
    }
    return ops;
  }

  capture::Policies policies_;

  // Waits until the client has received a policy that disables this op.
  void AwaitOff(const std::string& op) {
    while (client_->Selects(MSIT_TOKEN_CURRENT, op, Io::kOutput)) {
      std::this_thread::yield();
    }
  }
};

TEST_F(ClientCaptureTest, PolicyOfTheOpeningHoldsForTheFirstRecord) {
  SetPolicy(1, 0, {Rule(capture::Level::kFull, "a*")});
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Record("a1", 10).ok());
  EXPECT_TRUE(Record("b1", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_THAT(Ops(), ElementsAre("a1"));
  EXPECT_EQ(client_->counters().recorded_count, 1u);
  EXPECT_EQ(client_->counters().filtered_count, 1u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(ClientCaptureTest, DaemonHearsOfWhatIsFilteredAlthoughNothingIsSent) {
  options_.report_interval = milliseconds(1);
  SetPolicy(1, 0, {});
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(daemon_.WaitForReports(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Record("a", 10).ok());
  EXPECT_TRUE(daemon_.WaitForCoverage({.seen_count = 3, .filtered_count = 3}));
}

TEST_F(ClientCaptureTest, ChangesAtTheStatedToken) {
  ASSERT_TRUE(Open().ok());
  SetPolicy(1, 2, {Rule(capture::Level::kFull, "b")});
  ASSERT_TRUE(client_->SetToken(2).ok());
  AwaitOff("a");
  for (const int64_t token : {0, 1, 2, 3}) {
    ASSERT_TRUE(client_->SetToken(token).ok());
    EXPECT_TRUE(Record("a", 10).ok());
    EXPECT_TRUE(Record("b", 10).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_THAT(Ops(), ElementsAre("a", "b", "a", "b", "b", "b"));
}

TEST_F(ClientCaptureTest, OpThatWasOffIsRecordedFromTheStatedToken) {
  SetPolicy(1, 0, {Rule(capture::Level::kFull, "b")});
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Record("a", 10).ok());
  SetPolicy(2, 2, {Rule(capture::Level::kFull, "a")});
  ASSERT_TRUE(client_->SetToken(2).ok());
  AwaitOff("b");
  for (const int64_t token : {0, 1, 2, 3}) {
    ASSERT_TRUE(client_->SetToken(token).ok());
    EXPECT_TRUE(Record("a", 10).ok());
    EXPECT_TRUE(Record("b", 10).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_THAT(Ops(), ElementsAre("b", "b", "a", "a"));
  EXPECT_EQ(client_->counters().filtered_count, 7u);
}

TEST_F(ClientCaptureTest, ForkedChildNeitherFiltersNorHangs) {
  SetPolicy(1, 0, {Rule(capture::Level::kFull, "b")});
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Record("a", 10).ok());
  std::atomic<bool> is_over{false};
  std::thread busy([&] {
    while (!is_over.load()) EXPECT_TRUE(Record("a", 10).ok());
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      // A forked child may not use locks, threads or test assertions.
      const bool is_off = Record("a", 10).code == MSIT_ERROR_FORKED &&
                          !client_->Selects(0, "a", Io::kOutput) &&
                          client_->counters().filtered_count == 0 &&
                          client_->counters().dropped_count == 1;
      ::_exit(is_off ? 0 : 1);
    }
    int wait_status = -1;
    ASSERT_EQ(::waitpid(child, &wait_status, 0), child);
    EXPECT_EQ(wait_status, 0);
  }
  is_over.store(true);
  busy.join();
}

TEST_F(ClientCaptureTest, AllThatManyThreadsFilterIsToldBeforeTheEnd) {
  SetPolicy(1, 0, {Rule(capture::Level::kFull, "b")});
  ASSERT_TRUE(Open().ok());
  std::atomic<uint64_t> filtered_count{0};
  std::atomic<uint64_t> refused_count{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (Record("a", 10).ok()) filtered_count.fetch_add(1);
      refused_count.fetch_add(1);
    });
  }
  while (filtered_count.load() < 1000) std::this_thread::yield();
  ASSERT_TRUE(client_->Close(kLong).ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(client_->counters().filtered_count, filtered_count.load());
  EXPECT_EQ(client_->counters().dropped_count, refused_count.load());
  EXPECT_EQ(daemon_.coverage().filtered_count, filtered_count.load());
}

TEST_F(ClientCaptureTest, OlderRevisionChangesNothing) {
  SetPolicy(2, 0, {Rule(capture::Level::kFull, "b")});
  ASSERT_TRUE(Open().ok());
  daemon_.SetPolicy(
      capture::Encode({{1, 0, {Rule(capture::Level::kFull, "a")}}}));
  SetPolicy(3, 7, {});
  ASSERT_TRUE(client_->SetToken(7).ok());
  AwaitOff("b");
  ASSERT_TRUE(client_->SetToken(0).ok());
  EXPECT_FALSE(client_->Selects(MSIT_TOKEN_CURRENT, "a", Io::kOutput));
  EXPECT_TRUE(client_->Selects(MSIT_TOKEN_CURRENT, "b", Io::kOutput));
}

TEST_F(ClientCaptureTest, SummariesTravelInChunksOfTheirOwn) {
  SetPolicy(1, 0,
            {Rule(capture::Level::kFull, "f*"),
             Rule(capture::Level::kSummary, "s*")});
  ASSERT_TRUE(Open().ok());
  for (const char* op : {"f1", "s1", "f2", "s2"}) {
    EXPECT_TRUE(Record(op, 10).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_THAT(Ops(), ElementsAre("f1", "f2", "(s1)", "(s2)"));
  EXPECT_EQ(client_->counters().acknowledged_count, 4u);
}

TEST_F(ClientCaptureTest, SamplesTravelWholeInChunksOfTheirOwn) {
  SetPolicy(
      1, 0,
      {Rule(capture::Level::kFull, "f*"), Rule(capture::Level::kSummary, "s*"),
       Rule(capture::Level::kSample, "p*")});
  ASSERT_TRUE(Open().ok());
  for (const char* op : {"f1", "p1", "s1", "p2"}) {
    EXPECT_TRUE(Record(op, 5000).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_THAT(Ops(), UnorderedElementsAre("f1", "(s1)", "|p1|", "|p2|"));
  for (const Arrived& arrived : Arrivals()) {
    EXPECT_EQ(arrived.bytes.size(), arrived.tensor_bytes);
  }
  EXPECT_EQ(client_->counters().acknowledged_count, 4u);
}

TEST_F(ClientCaptureTest, OpenChunksOfAllLevelsDoNotBlockTheLastSlot) {
  options_.buffer_bytes = 2 * kSlotBytes;
  SetPolicy(
      1, 0,
      {Rule(capture::Level::kFull, "f"), Rule(capture::Level::kSummary, "s"),
       Rule(capture::Level::kSample, "p")});
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 3; ++i) {
    for (const char* op : {"f", "s", "p"}) EXPECT_TRUE(Record(op, 10).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().acknowledged_count, 9u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(ClientCaptureTest, TwoOpenChunksDoNotBlockTheLastSlot) {
  options_.buffer_bytes = 2 * kSlotBytes;
  SetPolicy(
      1, 0,
      {Rule(capture::Level::kFull, "f"), Rule(capture::Level::kSummary, "s")});
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Record("f", 10).ok());
  EXPECT_TRUE(Record("s", 10).ok());
  // Both slots have open chunks that have not lingered long enough, and neither
  // has space for this record.
  EXPECT_TRUE(Record("f", kPartBytes).ok());
  EXPECT_TRUE(Record("s", kPartBytes).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().dropped_count, 0u);
  EXPECT_EQ(client_->counters().acknowledged_count, 4u);
}

TEST_F(ClientCaptureTest, OpenChunksOfBothLevelsDoNotLingerForEver) {
  options_.buffer_bytes = 2 * kSlotBytes;
  options_.linger = milliseconds(1);
  SetPolicy(
      1, 0,
      {Rule(capture::Level::kFull, "f"), Rule(capture::Level::kSummary, "s")});
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Record("f", 10).ok());
  EXPECT_TRUE(Record("s", 10).ok());
  EXPECT_TRUE(daemon_.WaitForChunks(2));
}

TEST_F(ClientCaptureTest, DaemonThatComesBackCountsAnew) {
  SetPolicy(5, 0, {Rule(capture::Level::kFull, "a")});
  ASSERT_TRUE(Open().ok());
  policies_.clear();
  SetPolicy(1, 0, {Rule(capture::Level::kFull, "b")});
  daemon_.Break(StreamEnd::kLost, "gone");
  AwaitOff("a");
  EXPECT_TRUE(client_->Selects(MSIT_TOKEN_CURRENT, "b", Io::kOutput));
  daemon_.SetPolicy("");
  daemon_.Break(StreamEnd::kLost, "gone");
  while (!client_->Selects(MSIT_TOKEN_CURRENT, "a", Io::kOutput)) {
    std::this_thread::yield();
  }
}

TEST_F(ClientCaptureTest, ClientThatIsClosedSaysSoOfWhatIsOff) {
  SetPolicy(1, 0, {});
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Record("a", 10).ok());
  ASSERT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(Record("a", 10).code, MSIT_ERROR_CLOSED);
}

TEST_F(ClientCaptureTest, BytesThatAreNoPolicyEndTheStream) {
  daemon_.SetPolicy("none");
  EXPECT_EQ(Open().code, MSIT_ERROR_REFUSED);
}

TEST_F(ClientCaptureTest, ManyThreadsRecordWhileThePolicyChanges) {
  ASSERT_TRUE(Open().ok());
  constexpr int kThreads = 4;
  constexpr int kRecords = 2'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      for (int j = 0; j < kRecords; ++j) {
        EXPECT_TRUE(Record(i % 2 == 0 ? "a" : "b", 100).ok());
      }
    });
  }
  for (uint64_t revision = 1; revision <= 200; ++revision) {
    SetPolicy(revision, 0,
              {Rule(revision % 3 == 0 ? capture::Level::kSummary
                                      : capture::Level::kFull,
                    revision % 2 == 0 ? "a" : "b")});
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const ClientCounters counters = client_->counters();
  EXPECT_EQ(counters.recorded_count + counters.filtered_count,
            uint64_t{kThreads * kRecords});
  EXPECT_EQ(Arrivals().size(), counters.recorded_count);
}

}  // namespace
}  // namespace msitd::libmsit
