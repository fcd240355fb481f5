// SPDX-License-Identifier: Apache-2.0
#include "protos/endpoint/personal_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "protos/os/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace msitd::endpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t kUser = 1000;

Surroundings With(std::map<std::string, std::string> variables,
                  uid_t uid = kUser) {
  Surroundings out;
  out.variable = [variables = std::move(variables)](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  out.uid = uid;
  return out;
}

std::string StderrAsJournal() {
  struct stat info {};
  EXPECT_EQ(::fstat(STDERR_FILENO, &info), 0);
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

TEST(WhyNotStartTest, AVariableAndAFlagDecide) {
  EXPECT_THAT(WhyNotStart(Start::kAuto, With({})), IsEmpty());
  EXPECT_EQ(WhyNotStart(Start::kNo, With({{"MSITD_START", "1"}})),
            "--no-start was given");
  for (const char* const no : {"0", "false", "No", "OFF"}) {
    EXPECT_THAT(WhyNotStart(Start::kAuto, With({{"MSITD_START", no}})),
                HasSubstr("MSITD_START is "));
  }
  EXPECT_THAT(WhyNotStart(Start::kYes, With({{"MSITD_START", "0"}})),
              IsEmpty());
  EXPECT_THAT(WhyNotStart(Start::kNamed, With({{"MSITD_START", "0"}})),
              HasSubstr("MSITD_START is 0"));
}

TEST(WhyNotStartTest, RootAndServicesNeedPermission) {
  EXPECT_THAT(WhyNotStart(Start::kAuto, With({}, 0)), HasSubstr("for root"));
  EXPECT_THAT(WhyNotStart(Start::kAuto, With({{"MSITD_START", "1"}}, 0)),
              IsEmpty());
  EXPECT_THAT(WhyNotStart(Start::kNamed, With({}, 0)), IsEmpty());
  const std::map<std::string, std::string> service = {
      {"SYSTEMD_EXEC_PID", std::to_string(::getpid())}};
  EXPECT_THAT(WhyNotStart(Start::kAuto, With(service)),
              HasSubstr("of a service"));
  EXPECT_THAT(
      WhyNotStart(Start::kAuto, With({{"JOURNAL_STREAM", StderrAsJournal()}})),
      HasSubstr("of a service"));
  // As desktops pass them on to terminals.
  EXPECT_THAT(WhyNotStart(Start::kAuto, With({{"JOURNAL_STREAM", "1:2"},
                                              {"SYSTEMD_EXEC_PID", "1"},
                                              {"INVOCATION_ID", "a"}})),
              IsEmpty());
}

TEST(CheckSocketDirTest, OnlyItsUserMayWriteIt) {
  const testing::TempDir dir;
  const std::string path = dir.path() + "/msitd";
  EXPECT_THAT(CheckSocketDir(path, ::getuid()), IsEmpty());
  std::filesystem::create_directory(path);
  ::chmod(path.c_str(), 0700);
  EXPECT_THAT(CheckSocketDir(path, ::getuid()), IsEmpty());
  EXPECT_THAT(CheckSocketDir(path, ::getuid() + 1),
              HasSubstr("belongs to user " + std::to_string(::getuid())));
  ::chmod(path.c_str(), 0770);
  EXPECT_THAT(CheckSocketDir(path, ::getuid()), HasSubstr("chmod 700"));
  const std::string link = dir.path() + "/link";
  std::filesystem::create_symlink(path, link);
  EXPECT_THAT(CheckSocketDir(link, ::getuid()), HasSubstr("is not a folder"));
}

UniqueFd ListenIn(const std::string& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder + "/msitd.sock";
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
            0);
  EXPECT_EQ(::listen(fd.get(), 1), 0);
  return fd;
}

// A program in place of msitd.
class EnsureTest : public ::testing::Test {
 protected:
  std::string Program(const std::string& text) {
    const std::string path = socket_dir() + "/program";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    ::chmod(path.c_str(), 0700);
    return path;
  }
  std::string socket_dir() const { return dir_.path(); }
  Started Ensure(const std::string& program,
                 std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    StartOptions options;
    options.start = Start::kYes;
    options.program = program;
    options.timeout = timeout;
    return EnsurePersonalDaemon(socket_dir(), options, With({}, ::getuid()));
  }

 private:
  testing::TempDir dir_;
};

TEST_F(EnsureTest, ADaemonThatListensIsUsed) {
  const UniqueFd listener = ListenIn(socket_dir());
  EXPECT_TRUE(Ensure("/nonexistent").is_ready);
}

TEST_F(EnsureTest, AStaleSocketIsNoDaemon) {
  ListenIn(socket_dir());
  EXPECT_FALSE(IsListening(socket_dir()));
}

TEST_F(EnsureTest, ThePermissionIsAskedForFirst) {
  const Started started = EnsurePersonalDaemon(
      socket_dir(), {}, With({{"MSITD_START", "0"}}, ::getuid()));
  EXPECT_FALSE(started.is_ready);
  EXPECT_THAT(started.problem,
              AllOf(HasSubstr("MSITD_START is 0"),
                    HasSubstr("To start one, run: msitd --personal")));
}

TEST_F(EnsureTest, TheErrorOfTheProgramIsPassedOn) {
  EXPECT_EQ(
      Ensure(Program("echo 'msitd: the disk is gone' >&2; exit 1")).problem,
      "your own daemon does not start: the disk is gone");
  EXPECT_THAT(Ensure(Program("exit 1")).problem,
              HasSubstr("without an error message"));
  EXPECT_THAT(Ensure("/nonexistent/msitd").problem,
              HasSubstr("cannot start /nonexistent/msitd"));
}

TEST_F(EnsureTest, ASlowStartIsNoError) {
  const Started started =
      Ensure(Program("sleep 1"), std::chrono::milliseconds(50));
  EXPECT_FALSE(started.is_ready);
  EXPECT_THAT(started.problem, IsEmpty());
}

}  // namespace
}  // namespace msitd::endpoint
