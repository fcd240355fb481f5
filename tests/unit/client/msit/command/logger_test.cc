// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace msitd::msit_command {
namespace {

// The output of a logger.
class Written {
 public:
  Written() : file_(std::tmpfile(), &std::fclose) {}
  std::FILE* file() { return file_.get(); }

  std::string text() {
    std::string out;
    std::rewind(file_.get());
    for (int c = std::getc(file_.get()); c != EOF; c = std::getc(file_.get())) {
      out += static_cast<char>(c);
    }
    return out;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

TEST(Logger, WritesLinesAsPythonDoes) {
  Written written;
  Logger log("msit_llm_logger", LogLevel::kInfo, written.file());
  log.Warning("two\n\tlines\x7f");
  EXPECT_THAT(written.text(),
              testing::MatchesRegex(
                  "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},"
                  "[0-9]{3} - " +
                  std::to_string(getpid()) +
                  " - msit_llm_logger - WARNING - two__lines_\n"));
}

TEST(Logger, WritesLinesAsMsprobeDoes) {
  Written written;
  Logger log("x", LogLevel::kInfo, written.file(), LogStyle::kMsprobe);
  log.Info("a line");
  EXPECT_THAT(written.text(),
              testing::MatchesRegex(
                  "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} "
                  "\\(" +
                  std::to_string(getpid()) + "\\) \\[INFO\\] a line\n"));
}

TEST(Logger, LeavesOutWhatIsBelowItsLevel) {
  Written written;
  Logger log("x", *ParseLogLevel("error"), written.file());
  log.Debug("a");
  log.Info("b");
  log.InfoBlock("c");
  log.Warning("d");
  log.Error("e");
  EXPECT_THAT(written.text(), testing::EndsWith(" - ERROR - e\n"));
  EXPECT_THAT(written.text(), testing::Not(testing::HasSubstr("WARNING")));
}

TEST(Logger, KeepsTheLineFeedsOfABlock) {
  Written written;
  Logger log("x", LogLevel::kInfo, written.file());
  log.InfoBlock("a\nb");
  EXPECT_THAT(written.text(), testing::EndsWith(" - INFO - a\nb\n"));
}

TEST(Logger, KnowsTheWordsOfItsLevels) {
  EXPECT_EQ(ParseLogLevel("fatal"), LogLevel::kCritical);
  EXPECT_EQ(ParseLogLevel("critical"), LogLevel::kCritical);
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_FALSE(ParseLogLevel("INFO").has_value());
}

TEST(Quoted, ChoosesQuotesAsPythonDoes) {
  EXPECT_EQ(Quoted("a"), "'a'");
  EXPECT_EQ(Quoted("it's"), "\"it's\"");
  EXPECT_EQ(Quoted("'\"\\"), "'\\'\"\\\\'");
}

}  // namespace
}  // namespace msitd::msit_command
