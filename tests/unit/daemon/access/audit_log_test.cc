// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/audit_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "daemon/log/log.h"
#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::access {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> TargetsIn(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) {
    out.push_back(nlohmann::json::parse(line).at("target"));
  }
  return out;
}

AuditEntry Entry(std::string target) {
  return {std::chrono::system_clock::time_point(),
          {"uid:7", Role::kWriter},
          "unix:",
          "RunService.DeleteRun",
          std::move(target),
          absl::OkStatus()};
}

TEST(AuditLogTest, ALineSaysWhoDidWhat) {
  EXPECT_EQ(ToLine(Entry("a")),
            R"({"time":"1970-01-01T00:00:00.000Z","caller":"uid:7",)"
            R"("role":"writer","peer":"unix:","method":"RunService.DeleteRun",)"
            R"("target":"a","code":"OK"})"
            "\n");
  AuditEntry refused = Entry("a\n\"b\xff");
  refused.status =
      WithReason(absl::PermissionDeniedError("no"), ErrorReason::kNotOwner);
  const auto line = nlohmann::json::parse(ToLine(refused));
  EXPECT_EQ(line["reason"], "NOT_OWNER");
  EXPECT_EQ(line["target"], "a\n\"b\xEF\xBF\xBD");
  const std::string text = ToLine(refused);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(AuditLogTest, LinesAreThereInOrderAtTheEnd) {
  const testing::TempDir directory;
  const std::string path = directory / "audit";
  for (const char* target : {"a", "b"}) {
    const auto log = AuditLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Add(Entry(target));
    (*log)->Add(Entry(target));
  }
  EXPECT_THAT(TargetsIn(path), ElementsAre("a", "a", "b", "b"));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
}

TEST(AuditLogTest, AFileThatIsMovedAwayGetsASuccessor) {
  const testing::TempDir directory;
  const std::string path = directory / "audit";
  const std::string moved = directory / "audit.1";
  {
    const auto log = AuditLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Add(Entry("a"));
    while (TargetsIn(path).empty()) std::this_thread::yield();
    ASSERT_EQ(std::rename(path.c_str(), moved.c_str()), 0);
    std::this_thread::sleep_for(AuditLog::kLookInterval);
    (*log)->Add(Entry("b"));
  }
  EXPECT_THAT(TargetsIn(moved), ElementsAre("a"));
  EXPECT_THAT(TargetsIn(path), ElementsAre("b"));
}

TEST(AuditLogTest, ALinkIsNotFollowed) {
  const testing::TempDir directory;
  const std::string path = directory / "audit";
  ASSERT_EQ(::symlink((directory / "elsewhere").c_str(), path.c_str()), 0);
  EXPECT_FALSE(AuditLog::Open(path).ok());
  EXPECT_NE(::access((directory / "elsewhere").c_str(), F_OK), 0);
}

TEST(AuditLogTest, AFifoIsRefusedAtOnce) {
  const testing::TempDir directory;
  const std::string path = directory / "audit";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  // Without a reader, and with one.
  for (const bool has_reader : {false, true}) {
    const int reader =
        has_reader ? ::open(path.c_str(), O_RDONLY | O_NONBLOCK) : -1;
    const auto log = AuditLog::Open(path);
    EXPECT_EQ(log.status().code(), absl::StatusCode::kFailedPrecondition)
        << log.status();
    if (reader >= 0) ::close(reader);
  }
}

// Limits the size of files that this process writes, to simulate a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(AuditLogTest, LossAndItsEndAreLogged) {
  const testing::TempDir directory;
  const std::string path = directory / "audit";
  std::ostringstream text;
  const auto logger = log::Get("access");
  logger->sinks().push_back(
      std::make_shared<spdlog::sinks::ostream_sink_mt>(text, true));
  {
    const auto log = AuditLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.status();
    {
      const FileSizeLimit full(0);
      (*log)->Add(Entry("a"));
      while ((*log)->lost_count() < 1) std::this_thread::yield();
    }
    (*log)->Add(Entry("b"));
  }
  logger->sinks().pop_back();
  EXPECT_THAT(text.str(), HasSubstr("audit lines are lost file='" + path));
  EXPECT_THAT(text.str(), HasSubstr("audit lines are written again file='" +
                                    path + "' lost=1"));
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_THAT(line, HasSubstr("\"target\":\"b\""));
  std::getline(file, line);
  EXPECT_EQ(nlohmann::json::parse(line).at("lost"), 1);
}

TEST(AuditLogTest, WhatAFullDiskLosesIsCounted) {
  const auto log = AuditLog::Open("/dev/full");
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Add(Entry("a"));
  (*log)->Add(Entry("b"));
  while ((*log)->lost_count() < 2) std::this_thread::yield();
  EXPECT_EQ((*log)->lost_count(), 2u);
}

}  // namespace
}  // namespace msitd::access
