// SPDX-License-Identifier: Apache-2.0
#include "daemon/log/log_sink.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace msitd::log {
namespace {

class LogSinkTest : public ::testing::Test {
 protected:
  ~LogSinkTest() override { std::fclose(file_); }

  void Log(const std::string& module, spdlog::level::level_enum level,
           const std::string& text, std::chrono::seconds at = {}) {
    sink_.log(spdlog::details::log_msg(begin_ + at, {}, module, level, text));
  }

  std::vector<std::string> Written() {
    std::vector<std::string> lines;
    std::rewind(file_);
    char line[4096];
    while (std::fgets(line, sizeof(line), file_) != nullptr) {
      lines.emplace_back(line);
    }
    return lines;
  }

  std::FILE* const file_ = std::tmpfile();
  const spdlog::log_clock::time_point begin_{std::chrono::hours(500'000)};
  LogSink sink_{file_, Format::kText};
};

TEST_F(LogSinkTest, AModuleThatLogsTooMuchIsBoundedAndSaysSo) {
  const uint64_t lines = LogSink::kWindowLinesMax;
  for (uint64_t i = 0; i < lines + 7; ++i) {
    Log("noisy", spdlog::level::warn, "again");
  }
  // Other modules and other levels do not lose lines because of it.
  Log("noisy", spdlog::level::err, "broken");
  Log("quiet", spdlog::level::warn, "hello");
  EXPECT_EQ(Written().size(), lines + 2);
  EXPECT_EQ(sink_.Count().suppressed, 7u);
  EXPECT_EQ(sink_.Count().written[SPDLOG_LEVEL_WARN], lines + 1);
  EXPECT_EQ(sink_.Count().written[SPDLOG_LEVEL_ERROR], 1u);

  Log("noisy", spdlog::level::warn, "later", LogSink::kWindow);
  const std::vector<std::string> recent = sink_.Recent();
  EXPECT_NE(recent[recent.size() - 2].find("suppressed=7"), std::string::npos);
  EXPECT_NE(recent.back().find("noisy: later"), std::string::npos);
}

TEST_F(LogSinkTest, AClockThatIsSetBackSilencesNobody) {
  for (uint64_t i = 0; i < 2 * LogSink::kWindowLinesMax; ++i) {
    Log("m", spdlog::level::info, "x");
  }
  Log("m", spdlog::level::info, "back", std::chrono::hours(-1));
  EXPECT_NE(sink_.Recent().back().find("back"), std::string::npos);
}

TEST_F(LogSinkTest, TheLastLinesAreKeptAndTheyAreShort) {
  for (size_t i = 0; i < LogSink::kRecentLinesMax + 5; ++i) {
    Log("m" + std::to_string(i % 8), spdlog::level::info,
        std::to_string(i) + std::string(10'000, 'x'));
  }
  const std::vector<std::string> recent = sink_.Recent();
  ASSERT_EQ(recent.size(), LogSink::kRecentLinesMax);
  EXPECT_NE(recent.front().find(": 5x"), std::string::npos);
  EXPECT_LE(recent.front().size(), LogSink::kRecentLineBytesMax + 3);
}

}  // namespace
}  // namespace msitd::log
