// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/private_daemon.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "client/ask/query/connection.h"
#include "client/ask/query/endpoint.h"
#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::ask {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

class PrivateDaemonTest : public ::testing::Test {
 protected:
  PrivateDaemonOptions Options() const {
    return {.data_dir = folder_.path(), .program = MSITD_BINARY};
  }

  // Writes a shell script that replaces the daemon.
  std::string Script(const std::string& text) const {
    const std::string path = folder_ / "script";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  Interrupts interrupts_;
  const testing::TempDir folder_;
};

bool IsThere(pid_t pid) { return ::kill(pid, 0) == 0; }

// Returns false if the process still exists after a long timeout.
bool Ends(pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(20);
  while (IsThere(pid)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

TEST_F(PrivateDaemonTest, AnswersAndLeavesNothing) {
  std::string socket;
  pid_t pid = 0;
  {
    const auto daemon = PrivateDaemon::Start(Options(), interrupts_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    pid = (*daemon)->pid();
    socket = (*daemon)->endpoint().substr(5);
    EXPECT_TRUE(fs::is_socket(socket));
    EXPECT_FALSE(fs::is_empty(folder_.path()));

    ConnectionOptions options;
    options.endpoint = (*daemon)->endpoint();
    options.target = *ParseEndpoint(options.endpoint);
    Connection connection(options, interrupts_);
    v1::ListRunsResponse runs;
    const Outcome outcome =
        connection.Ask(&v1::RunService::Stub::ListRuns, {}, runs);
    EXPECT_TRUE(outcome.ok()) << outcome.error;
  }
  EXPECT_FALSE(fs::exists(fs::path(socket).parent_path()));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_TRUE(Ends(pid));
}

TEST_F(PrivateDaemonTest, AStoreThatIsKeptStays) {
  PrivateDaemonOptions options = Options();
  options.kept_store = folder_.path() + "/kept";
  {
    const auto daemon = PrivateDaemon::Start(options, interrupts_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
  }
  EXPECT_TRUE(std::filesystem::exists(options.kept_store));
  // The store is no longer locked.
  const auto again = PrivateDaemon::Start(options, interrupts_);
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(PrivateDaemonTest, TwoAreStrangers) {
  const auto one = PrivateDaemon::Start(Options(), interrupts_);
  const auto other = PrivateDaemon::Start(Options(), interrupts_);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE((*one)->endpoint(), (*other)->endpoint());
}

TEST_F(PrivateDaemonTest, SaysWhatADaemonSaidThatEnded) {
  PrivateDaemonOptions options = Options();
  options.program = Script("echo first; echo the disk is gone; exit 3");
  const auto daemon = PrivateDaemon::Start(options, interrupts_);
  EXPECT_EQ(daemon.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(daemon.status()),
            "the private daemon exited immediately: the disk is gone");
}

TEST_F(PrivateDaemonTest, GivesUpOneThatIsNeverReady) {
  PrivateDaemonOptions options = Options();
  options.program = Script("exec sleep 600");
  options.start_timeout = milliseconds(100);
  const auto daemon = PrivateDaemon::Start(options, interrupts_);
  EXPECT_EQ(daemon.status().code(), absl::StatusCode::kDeadlineExceeded);
  const std::string told(Message(daemon.status()));
  EXPECT_TRUE(
      told.starts_with("the private daemon has not started after 0.1 s: its "
                       "log is empty; this machine, or the disk of " +
                       folder_.path()))
      << told;
  fs::remove(folder_ / "script");
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(PrivateDaemonTest, NamesAFolderThatIsNotThere) {
  PrivateDaemonOptions options = Options();
  options.data_dir = folder_ / "nothing here";
  const auto daemon = PrivateDaemon::Start(options, interrupts_);
  EXPECT_NE(Message(daemon.status()).find("nothing here"), std::string::npos);
}

TEST_F(PrivateDaemonTest, EndsWithAProcessThatIsKilled) {
  struct Started {
    pid_t pid = -1;
    char endpoint[64] = {};
  };
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    Started started;
    const auto daemon = PrivateDaemon::Start(Options(), interrupts_);
    if (daemon.ok()) {
      started.pid = (*daemon)->pid();
      (*daemon)->endpoint().copy(started.endpoint, sizeof(started.endpoint));
    }
    if (::write(ends[1], &started, sizeof(started)) < 0) ::_exit(1);
    for (;;) ::pause();
  }
  Started started;
  ASSERT_EQ(::read(ends[0], &started, sizeof(started)),
            static_cast<ssize_t>(sizeof(started)));
  ASSERT_GT(started.pid, 0);
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(Ends(started.pid));
  fs::remove_all(fs::path(started.endpoint).parent_path().string().substr(5));
}

TEST(FindMsitdTest, SaysWhereItLooked) {
  const char* const path = ::getenv("PATH");
  const std::string before = path != nullptr ? path : "";
  ::setenv("PATH", "/nothing", 1);
  const auto program = FindMsitd();
  ::setenv("PATH", before.c_str(), 1);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(Message(program.status()).find("PATH"), std::string::npos);
}

}  // namespace
}  // namespace msitd::ask
