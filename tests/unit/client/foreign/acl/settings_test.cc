// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace msitd::acl {
namespace {

// Sets an environment variable during its lifetime.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

TEST(SettingsTest, VariablesAreTaken) {
  const Variable variables[] = {
      {"MSITD_RUN", "r"},
      {"RANK", "3"},
      {"WORLD_SIZE", "8"},
      {"MSITD_ACL_BUFFER_BYTES", "1048576"},
      {"MSITD_ACL_MAX_BLOCK_MS", "0"},
      {"MSITD_ACL_OVERFLOW", "drop-newest"},
  };
  const auto settings = ReadSettings();
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->run, "r");
  EXPECT_EQ(settings->rank, 3);
  EXPECT_EQ(settings->world_size, 8);
  EXPECT_EQ(settings->memory_bytes_max, 1048576U);
  EXPECT_EQ(settings->max_block.count(), 0);
  EXPECT_EQ(settings->overflow, libmsit::OverflowMode::kDropNewest);
}

TEST(SettingsTest, WrongValuesAreRefusedByName) {
  const struct {
    const char* name;
    const char* value;
  } kCases[] = {
      {"MSITD_ACL_BUFFER_BYTES", "1"},
      {"MSITD_ACL_BUFFER_BYTES", "1g"},
      {"MSITD_ACL_MAX_BLOCK_MS", "-1"},
      {"MSITD_ACL_OVERFLOW", "newest"},
      {"RANK", "-1"},
      {"WORLD_SIZE", "0"},
  };
  EXPECT_TRUE(ReadSettings().ok());
  for (const auto& [name, value] : kCases) {
    const Variable variable(name, value);
    const auto settings = ReadSettings();
    ASSERT_FALSE(settings.ok()) << name;
    EXPECT_NE(settings.status().ToString().find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace msitd::acl
