// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/personal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "daemon/config/command_line.h"
#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PersonalTest : public ::testing::Test {
 protected:
  PersonalTest() {
    Set("HOME", dir_.path());
    for (const char* const name :
         {"XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"}) {
      ::unsetenv(name);
    }
  }
  static void Set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  }

  const testing::TempDir dir_;
};

TEST_F(PersonalTest, FilesAreInTheHomeFolder) {
  const auto files = FindPersonalFiles();
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->state_dir, dir_.path() + "/.local/state/msitd");
  EXPECT_EQ(files->store(), files->state_dir + "/store");
  EXPECT_EQ(files->log(), files->state_dir + "/msitd.log");
  EXPECT_THAT(files->config_files,
              ElementsAre("/etc/msitd/personal.toml",
                          dir_.path() + "/.config/msitd/msitd.toml"));
}

TEST_F(PersonalTest, VariablesMoveThem) {
  Set("XDG_STATE_HOME", "/state");
  Set("XDG_CONFIG_HOME", "/config");
  const auto files = FindPersonalFiles();
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->state_dir, "/state/msitd");
  EXPECT_EQ(files->config_files.back(), "/config/msitd/msitd.toml");
  // As the XDG specification says.
  Set("XDG_STATE_HOME", "relative");
  EXPECT_EQ(FindPersonalFiles()->state_dir,
            dir_.path() + "/.local/state/msitd");
}

TEST_F(PersonalTest, WithoutAHomeAVariableIsNeeded) {
  Set("HOME", "/nonexistent");
  EXPECT_THAT(std::string(Message(FindPersonalFiles().status())),
              HasSubstr("there is no home folder /nonexistent for the store; "
                        "set XDG_STATE_HOME"));
  Set("XDG_STATE_HOME", "/state");
  EXPECT_EQ(FindPersonalFiles()->config_files.size(), 1u);
}

TEST_F(PersonalTest, TheLimitsAreModest) {
  Set("XDG_RUNTIME_DIR", dir_.path());
  DaemonConfig config;
  SetPersonalDefaults(*FindPersonalFiles(), config);
  EXPECT_EQ(config.socket_dir, dir_.path() + "/msitd");
  EXPECT_EQ(config.data_dir, dir_.path() + "/.local/state/msitd/store");
  EXPECT_EQ(config.retain_disk_bytes, int64_t{20} << 30);
  EXPECT_EQ(config.idle_exit_s, 600);
}

TEST_F(PersonalTest, FlagsOverrideTheDefaults) {
  const char* const words[] = {"msitd", "--personal", "--idle-exit-s", "5"};
  const auto command = ParseCommandLine(4, words);
  ASSERT_TRUE(command.ok());
  ASSERT_TRUE(command->personal.has_value());
  EXPECT_EQ(command->config.idle_exit_s, 5);
  EXPECT_EQ(command->config.retain_age_s, 30 * 24 * 3600);
}

}  // namespace
}  // namespace msitd::config
