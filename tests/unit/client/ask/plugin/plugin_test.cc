// SPDX-License-Identifier: Apache-2.0
#include "client/ask/plugin/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;

TEST(PluginTest, AFileAndAFunctionAreTakenApart) {
  const auto spec = ParsePlugin("dir/a:b.py:angle");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->file, "dir/a:b.py");
  EXPECT_EQ(spec->function, "angle");
  EXPECT_EQ(spec->metric, "angle");
  for (const char* wrong : {"", "own.py", "own.py:", ":angle", ":"}) {
    EXPECT_FALSE(ParsePlugin(wrong).ok()) << wrong;
  }
}

TEST(PluginTest, ForeignTextIsMadePrintableAndCutBetweenCharacters) {
  EXPECT_EQ(AnswerText("a\nb\x1b[1m"), "a\\nb\\x1b[1m");
  EXPECT_EQ(AnswerText(std::string(1023, 'x') + "\u00e4"),
            std::string(1023, 'x'));
  EXPECT_EQ(AnswerText(std::string(1022, 'x') + "\u00e4"),
            std::string(1022, 'x') + "\u00e4");
}

// Runs programs that are not our interpreter, because responses are untrusted.
class InterpreterTest : public ::testing::Test {
 protected:
  // Starts a shell that runs `script` instead of our interpreter.
  absl::Status Start(const std::string& script,
                     std::chrono::milliseconds limit = kAmple) {
    std::string path =
        (std::filesystem::temp_directory_path() / "python-XXXXXX").string();
    const int fd = mkstemp(path.data());
    EXPECT_GE(fd, 0);
    const std::string text = "#!/bin/sh\n" + script + "\n";
    EXPECT_EQ(::write(fd, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    fchmod(fd, 0700);
    close(fd);
    InterpreterOptions options;
    options.python = path;
    options.start_limit = limit;
    auto interpreter = Interpreter::Start(
        options, [this] { return interrupts_.interrupted(); });
    std::filesystem::remove(path);
    return interpreter.status();
  }

  static constexpr std::chrono::milliseconds kAmple{60'000};

  Interrupts interrupts_;
};

TEST_F(InterpreterTest, AnAnswerOfAnotherFormIsRefused) {
  const auto printf = [](const std::string& bytes) {
    return "printf '" + bytes + "' >&3; cat <&3";
  };
  const std::string zeros = R"(\0\0\0\0\0\0\0\0)";
  // The first response of an interpreter that is ready has kind 0, no text and
  // value 0.
  EXPECT_TRUE(Start(printf("mpr1" + zeros + zeros)).ok());
  for (const std::string& wrong :
       {"mpr2" + zeros + zeros,
        "mpr1" + zeros.substr(0, 8) + R"(\1\4\0\0)" + zeros}) {
    const absl::Status status = Start(printf(wrong));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  }
}

TEST_F(InterpreterTest, AProcessThatEndsIsToldWithItsStatus) {
  absl::Status status = Start("printf mpr >&3; exit 5");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ended with status 5"));
  status = Start("kill -SEGV $$");
  EXPECT_THAT(std::string(status.message()), HasSubstr("signal 11"));
}

TEST_F(InterpreterTest, ItsTimeIsLimited) {
  const absl::Status status = Start("cat <&3", std::chrono::milliseconds(50));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("within 0.05s"));
}

}  // namespace
}  // namespace msitd::ask
