// SPDX-License-Identifier: Apache-2.0
#include "client/core/launch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "protos/base/limits.h"
#include "protos/base/stream_id.h"
#include "tests/unit/client/core/client_fixture.h"

namespace msitd::client {
namespace {

class LaunchTest : public testing::Test {
 protected:
  LaunchTest() {
    for (const char* name :
         {"MSITD_JOB", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
          "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "MASTER_ADDR",
          "MASTER_PORT"}) {
      ::unsetenv(name);
    }
  }

  // What a child sees that was forked off.
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
  ::setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
  EXPECT_NE(LaunchOf(2), second);
  ::setenv("MSITD_JOB", "mine", 1);
  EXPECT_EQ(LaunchOf(2), "mine");
  EXPECT_EQ(LaunchOf(1), "mine");
  ::setenv("MSITD_JOB", std::string(1000, 'x').c_str(), 1);
  EXPECT_LE(LaunchOf(2).size(), kJobBytesMax);
  ::unsetenv("MSITD_JOB");
  EXPECT_LE(LaunchOf(2).size(), kJobBytesMax);
}

using RunOfClientTest = ClientTest;

TEST_F(RunOfClientTest, ChunksNameTheRunThatTheDaemonGives) {
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
  EXPECT_EQ(openings[0].run, "run");
  EXPECT_EQ(openings[0].if_exists, IfExists::kNew);
  EXPECT_EQ(openings[0].job, "launch");
  // It has its run; another one would be a third.
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
  // A connection that is made again does not set the token back.
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
}  // namespace msitd::client
