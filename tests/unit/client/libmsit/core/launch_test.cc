// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/launch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "protos/base/limits.h"
#include "protos/base/recording_job.h"
#include "protos/base/stream_id.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"

namespace msitd::libmsit {
namespace {

class LaunchTest : public testing::Test {
 protected:
  LaunchTest() {
    for (const char* name :
         {"MSITD_JOB", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
          "SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID", "FLUX_JOB_ID",
          "PMIX_NAMESPACE", "MASTER_ADDR", "MASTER_PORT"}) {
      ::unsetenv(name);
    }
  }

  // Returns the result of `function` in a forked child.
  template <typename Function>
  static uint64_t InChild(Function function) {
    int pipe[2];
    EXPECT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const uint64_t value = function();
      const bool ok = ::write(pipe[1], &value, sizeof(value)) == sizeof(value);
      ::_exit(ok ? 0 : 1);
    }
    uint64_t value = 0;
    EXPECT_EQ(::read(pipe[0], &value, sizeof(value)), ssize_t{sizeof(value)});
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    ::close(pipe[0]);
    ::close(pipe[1]);
    return value;
  }
};

TEST_F(LaunchTest, StreamsOfAProcessHaveItInCommon) {
  const uint64_t first = NewStreamId();
  const uint64_t second = NewStreamId();
  EXPECT_NE(first, second);
  EXPECT_EQ(ProcessOf(first), ProcessOf(second));
  EXPECT_NE(ProcessOf(first), 0u);
  const uint64_t child = InChild([] { return NewStreamId(); });
  EXPECT_NE(ProcessOf(child), ProcessOf(first));
  EXPECT_NE(ProcessOf(child), 0u);
}

TEST_F(LaunchTest, ProcessAloneIsALaunch) {
  const auto hash = [] { return std::hash<std::string>()(LaunchOf(1)); };
  EXPECT_EQ(LaunchOf(1), LaunchOf(1));
  EXPECT_NE(InChild(hash), hash());
}

TEST_F(LaunchTest, RanksHaveWhatTheirLauncherSays) {
  const std::string parent = LaunchOf(2);
  EXPECT_EQ(LaunchOf(2), parent);
  // A forked rank belongs to the launch of the process that forked it.
  EXPECT_EQ(InChild([] { return std::hash<std::string>()(LaunchOf(2)); }),
            std::hash<std::string>()(parent));
  ::setenv("MASTER_PORT", "29500", 1);
  const std::string first = LaunchOf(2);
  EXPECT_NE(first, parent);
  const auto hash = [] { return std::hash<std::string>()(LaunchOf(2)); };
  EXPECT_EQ(InChild(hash), hash());
  ::setenv("TORCHELASTIC_RUN_ID", "a", 1);
  const std::string second = LaunchOf(2);
  EXPECT_NE(second, first);
  std::set<std::string> launches = {parent, first, second};
  for (const char* attempt : {"TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID",
                              "SLURM_RESTART_COUNT", "FLUX_JOB_ID"}) {
    ::setenv(attempt, "1", 1);
    EXPECT_TRUE(launches.insert(LaunchOf(2)).second) << attempt;
  }
  for (const std::string& launch : launches) {
    EXPECT_FALSE(IsNamedLaunch(launch)) << launch;
  }
  EXPECT_FALSE(IsNamedLaunch(LaunchOf(1)));
  ::setenv("MSITD_JOB", "mine", 1);
  EXPECT_EQ(LaunchOf(2), "mine");
  EXPECT_EQ(LaunchOf(1), "mine");
  EXPECT_TRUE(IsNamedLaunch("mine"));
  ::setenv("MSITD_JOB", std::string(1000, 'x').c_str(), 1);
  EXPECT_LE(LaunchOf(2).size(), kJobBytesMax);
  EXPECT_TRUE(IsNamedLaunch(LaunchOf(2)));
  ::unsetenv("MSITD_JOB");
  EXPECT_LE(LaunchOf(2).size(), kJobBytesMax);
}

TEST_F(LaunchTest, RecordingsOfARankOfARunAreNumbered) {
  const RecordedRank rank = {
      .endpoint = "/run/msitd", .launch = "J", .run = "numbered"};
  EXPECT_EQ(NextRecording(rank), 1u);
  EXPECT_EQ(NextRecording(rank), 1u);
  CountRecording(rank, 1);
  EXPECT_EQ(NextRecording(rank), 2u);
  std::vector<RecordedRank> others(4, rank);
  others[0].endpoint = "node2:7741";
  others[1].launch = "K";
  others[2].run = "another";
  others[3].rank = 1;
  for (const RecordedRank& other : others) EXPECT_EQ(NextRecording(other), 1u);
  CountRecording(rank, 2);
  // This recording was opened at the same time as the previous one.
  CountRecording(rank, 1);
  EXPECT_EQ(NextRecording(rank), 3u);
  EXPECT_EQ(InChild([&] { return NextRecording(rank); }), 1u);
}

TEST_F(LaunchTest, JobNamesLaunchAndRecording) {
  EXPECT_EQ(JobOf("J", 1), "J");
  EXPECT_EQ(JobOf("J", 12), "J / recording 12");
  const std::string text = JobOf("J", 12);
  const RecordingJob job = ParseRecordingJob(text);
  EXPECT_EQ(job.launch, "J");
  EXPECT_EQ(job.number, 12u);
  for (const char* const other :
       {"J", "J / recording ", "J / recording 1", "J / recording 02",
        "J / recording 2x", "J / recording 99999999999"}) {
    EXPECT_EQ(ParseRecordingJob(other).launch, other);
    EXPECT_EQ(ParseRecordingJob(other).number, 1u);
  }
  const std::string long_name(kJobBytesMax, 'x');
  const std::string last = JobOf(long_name, kRecordingNumberMax);
  EXPECT_LE(last.size(), kJobBytesMax);
  EXPECT_EQ(ParseRecordingJob(last).number, kRecordingNumberMax);
  EXPECT_EQ(ParseRecordingJob(last).launch, JobOf(long_name, 1));
}

using RunOfClientTest = ClientTest;

TEST_F(RunOfClientTest, JobSaysWhichRecordingOfTheRankItIs) {
  options_.run = "recorded again";
  options_.job = "launch";
  // A client that the daemon rejects is not counted.
  daemon_.RefuseOpening(StreamEnd::kRefused, "no");
  EXPECT_FALSE(Open().ok());
  daemon_.AcceptOpening();
  ASSERT_TRUE(Open().ok());
  client_.reset();
  ASSERT_TRUE(Open().ok());
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(Record("op", 8).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  client_.reset();
  daemon_.Wipe();
  options_.rank = 0;
  ASSERT_TRUE(Open().ok());
  std::vector<std::string> jobs;
  for (const auto& opening : daemon_.openings()) jobs.push_back(opening.job);
  EXPECT_EQ(jobs, (std::vector<std::string>{"launch", "launch",
                                            "launch / recording 2",
                                            "launch / recording 2", "launch"}));
}

TEST_F(RunOfClientTest, RecordingThatWasReplacedBeforeItBeganCounts) {
  options_.run = "replaced";
  options_.job = "launch";
  options_.open_timeout = std::chrono::milliseconds(100);
  daemon_.RefuseOpening(StreamEnd::kLost, "ALREADY_EXISTS: no [RANK_BUSY]");
  EXPECT_FALSE(Open().ok());
  daemon_.RefuseOpening(StreamEnd::kLost, "ALREADY_EXISTS: no [RUN_EXISTS]");
  EXPECT_FALSE(Open().ok());
  EXPECT_EQ(daemon_.openings().back().job, "launch");
  daemon_.AcceptOpening();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(daemon_.openings().back().job, "launch / recording 2");
}

// Records made before the first answer count from the token in that answer.
class AppendBeforeAnswerTest : public ClientTest {
 protected:
  void OpenWithoutAnswer() {
    options_.if_exists = IfExists::kAppend;
    options_.open_timeout = microseconds(0);
    daemon_.RefuseOpening(StreamEnd::kLost, "not yet");
    daemon_.SetFirstToken(5);
    ASSERT_TRUE(Open().ok());
  }

  Status RecordAs(int64_t token, const std::string& op, uint64_t identity = 0) {
    const std::vector<std::byte> data(8);
    const int64_t dims[] = {8};
    TensorView tensor;
    tensor.op = op;
    tensor.io = Io::kOutput;
    tensor.dtype = DType::kUint8;
    tensor.dims = dims;
    tensor.data = data.data();
    tensor.token = token;
    tensor.identity = identity;
    return client_->Record(tensor);
  }

  Status DocumentAt(int64_t token, const std::string& name) {
    const std::string text = "text";
    const int64_t dims[] = {4};
    TensorView document;
    document.op = name;
    document.kind = RecordKind::kDocument;
    document.dims = dims;
    document.data = std::as_bytes(std::span(text)).data();
    document.token = token;
    return client_->Record(document);
  }

  // Returns the tokens that arrived, by op.
  std::map<std::string, int64_t> Tokens() {
    daemon_.AcceptOpening();
    EXPECT_TRUE(client_->Flush(kLong).ok());
    std::map<std::string, int64_t> out;
    for (const Arrived& record : Arrivals()) {
      out.emplace(record.key.op, record.key.token);
    }
    return out;
  }
  using OpTokens = std::map<std::string, int64_t>;
};

TEST_F(AppendBeforeAnswerTest, TokensMoveWithTheAnswer) {
  OpenWithoutAnswer();
  ASSERT_TRUE(Record("a", 8).ok());
  ASSERT_TRUE(Record("large", 2 * kPartBytes).ok());
  EXPECT_EQ(client_->NextToken(), 1);
  ASSERT_TRUE(RecordAs(MSIT_TOKEN_CURRENT, "b", 7).ok());
  ASSERT_TRUE(RecordAs(MSIT_TOKEN_CURRENT, "b again", 7).ok());
  const OpTokens tokens = Tokens();
  EXPECT_EQ(tokens,
            (OpTokens{{"a", 5}, {"large", 5}, {"b", 6}, {"b again", 6}}));
  EXPECT_EQ(client_->token(), 6);
  EXPECT_EQ(client_->NextToken(), 7);
  ASSERT_TRUE(Record("c", 8).ok());
  ASSERT_TRUE(RecordAs(7, "d").ok());
  ASSERT_TRUE(RecordAs(2, "below").ok());
  EXPECT_TRUE(daemon_.WaitForTokenEnd(8));
  const OpTokens later = Tokens();
  EXPECT_EQ(later.at("c"), 7);
  EXPECT_EQ(later.at("d"), 7);
  EXPECT_EQ(later.at("below"), 2);
  EXPECT_EQ(client_->counters().aliased_count, 1u);
}

TEST_F(AppendBeforeAnswerTest, TokensOfTheHostStay) {
  OpenWithoutAnswer();
  ASSERT_TRUE(Record("a", 8).ok());
  ASSERT_TRUE(RecordAs(3, "b").ok());
  EXPECT_EQ(Tokens(), (OpTokens{{"a", 0}, {"b", 3}}));
  EXPECT_EQ(client_->token(), 0);
}

TEST_F(AppendBeforeAnswerTest, TokenThatTheHostSetStays) {
  OpenWithoutAnswer();
  ASSERT_TRUE(client_->SetToken(2).ok());
  ASSERT_TRUE(Record("a", 8).ok());
  EXPECT_EQ(Tokens(), (OpTokens{{"a", 2}}));
}

TEST_F(AppendBeforeAnswerTest, ReferencesMoveWithTheAnswer) {
  OpenWithoutAnswer();
  const int64_t first = client_->TokenReference();
  EXPECT_EQ(client_->TokenNumber(first), 0);
  ASSERT_TRUE(RecordAs(first, "a").ok());
  int32_t call = -1;
  ASSERT_TRUE(client_->BeginCall(first, "a", &call).ok());
  EXPECT_TRUE(client_->Selects(first, "a", Io::kOutput));
  client_->NextToken();
  const int64_t second = client_->TokenReference();
  EXPECT_EQ(second, first + 1);
  ASSERT_TRUE(RecordAs(second, "b").ok());
  EXPECT_EQ(Tokens(), (OpTokens{{"a", 5}, {"b", 6}}));

  // References created before the answer stay valid.
  EXPECT_EQ(client_->TokenReference(), second);
  EXPECT_EQ(client_->TokenNumber(first), 5);
  EXPECT_EQ(client_->TokenNumber(MSIT_TOKEN_CURRENT), 6);
  EXPECT_EQ(client_->TokenNumber(3), 3);
  ASSERT_TRUE(RecordAs(first, "later").ok());
  EXPECT_EQ(Tokens().at("later"), 5);
  ASSERT_TRUE(client_->SetToken(first).ok());
  EXPECT_EQ(client_->token(), 5);
}

TEST_F(AppendBeforeAnswerTest, QuestionsFixNothing) {
  OpenWithoutAnswer();
  client_->Selects(0, "a", Io::kOutput);
  client_->LevelAt("", 3, "a", Io::kOutput);
  client_->SelectionAt(4);
  ASSERT_TRUE(RecordAs(MSIT_TOKEN_CURRENT, "a").ok());
  EXPECT_EQ(Tokens(), (OpTokens{{"a", 5}}));
}

TEST_F(AppendBeforeAnswerTest, DocumentsOfTheRankStayAndFixNothing) {
  OpenWithoutAnswer();
  ASSERT_TRUE(RecordAs(MSIT_TOKEN_CURRENT, "a").ok());
  ASSERT_TRUE(DocumentAt(0, "tree").ok());
  ASSERT_TRUE(DocumentAt(client_->TokenReference(), "request").ok());
  ASSERT_TRUE(RecordAs(MSIT_TOKEN_CURRENT, "b").ok());
  EXPECT_EQ(Tokens(),
            (OpTokens{{"a", 5}, {"tree", 0}, {"request", 5}, {"b", 5}}));
  ASSERT_TRUE(DocumentAt(0, "later tree").ok());
  EXPECT_EQ(Tokens().at("later tree"), 0);
}

TEST_F(AppendBeforeAnswerTest, ReferencesAreNumbersWhereTheClientHasWaited) {
  options_.if_exists = IfExists::kAppend;
  daemon_.SetFirstToken(5);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(client_->TokenReference(), 5);
}

TEST_F(AppendBeforeAnswerTest, ReservationMovesToo) {
  OpenWithoutAnswer();
  const int64_t dims[] = {8};
  TensorView tensor;
  tensor.op = "late";
  tensor.io = Io::kOutput;
  tensor.dtype = DType::kUint8;
  tensor.dims = dims;
  tensor.comes_later = true;
  std::unique_ptr<Reservation> reservation;
  ASSERT_TRUE(client_->Reserve(tensor, &reservation).ok());
  ASSERT_NE(reservation, nullptr);
  daemon_.AcceptOpening();
  ASSERT_TRUE(daemon_.WaitForReports(1));
  EXPECT_EQ(client_->token(), 5);
  std::ranges::fill(reservation->parts.front().bytes, std::byte{9});
  ASSERT_TRUE(client_->Publish(*reservation, true).ok());
  EXPECT_EQ(Tokens(), (OpTokens{{"late", 5}}));
}

TEST_F(AppendBeforeAnswerTest, CallsAreNumberedAcrossTheAnswer) {
  OpenWithoutAnswer();
  int32_t call = -1;
  ASSERT_TRUE(client_->BeginCall(MSIT_TOKEN_CURRENT, "op", &call).ok());
  EXPECT_EQ(call, 0);
  daemon_.AcceptOpening();
  ASSERT_TRUE(daemon_.WaitForReports(1));
  EXPECT_EQ(client_->token(), 5);
  ASSERT_TRUE(client_->BeginCall(5, "op", &call).ok());
  EXPECT_EQ(call, 1);
}

TEST_F(RunOfClientTest, ChunksNameTheRunThatTheDaemonGives) {
  options_.run = "renamed";
  options_.if_exists = IfExists::kNew;
  options_.job = "launch";
  daemon_.RenameRun("run-2");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(client_->run(), "run-2");
  ASSERT_TRUE(Record("op", 8).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(Arrivals().front().key.run, "run-2");
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(Record("op", 8).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto openings = daemon_.openings();
  ASSERT_EQ(openings.size(), 2u);
  EXPECT_EQ(openings[0].run, "renamed");
  EXPECT_EQ(openings[0].if_exists, IfExists::kNew);
  EXPECT_EQ(openings[0].job, "launch");
  // The client keeps its run, because a new name would create a third run.
  EXPECT_EQ(openings[1].run, "run-2");
  EXPECT_EQ(openings[1].if_exists, IfExists::kFail);
}

TEST_F(RunOfClientTest, StreamThatAppendsDoesSoWheneverItComes) {
  options_.if_exists = IfExists::kAppend;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(client_->run(), "run");
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(Record("op", 8).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto openings = daemon_.openings();
  ASSERT_EQ(openings.size(), 2u);
  EXPECT_EQ(openings[1].if_exists, IfExists::kAppend);
  EXPECT_EQ(openings[1].job, openings[0].job);
  EXPECT_FALSE(openings[0].job.empty());
}

TEST_F(RunOfClientTest, TokenBeginsWhereTheDaemonSays) {
  options_.if_exists = IfExists::kAppend;
  daemon_.SetFirstToken(5);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(client_->token(), 5);
  ASSERT_TRUE(Record("op", 8).ok());
  EXPECT_EQ(client_->NextToken(), 6);
  // A reconnection does not reset the token.
  daemon_.SetFirstToken(9);
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(Record("op", 8).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->token(), 6);
  client_.reset();
  daemon_.Wipe();
  daemon_.SetFirstToken(uint64_t{kTokenMax} + 1);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(client_->token(), 0);
}

TEST_F(RunOfClientTest, NewRunNeedsAnAnswer) {
  options_.if_exists = IfExists::kNew;
  options_.open_timeout = microseconds(0);
  EXPECT_EQ(Open().code, MSIT_ERROR_INVALID_ARGUMENT);
  options_.open_timeout = kLong;
  options_.job.assign(kJobBytesMax + 1, 'x');
  EXPECT_EQ(Open().code, MSIT_ERROR_INVALID_ARGUMENT);
}

TEST_F(RunOfClientTest, ConflictsOfAllConnectionsAreCounted) {
  ASSERT_TRUE(Open().ok());
  daemon_.TellConflicts(3);
  daemon_.Break(StreamEnd::kLost, "gone");
  ASSERT_TRUE(Record("op", 8).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().conflict_count, 3u);
  daemon_.TellConflicts(2);
  ASSERT_TRUE(Record("op", 8).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().conflict_count, 5u);
}

}  // namespace
}  // namespace msitd::libmsit
