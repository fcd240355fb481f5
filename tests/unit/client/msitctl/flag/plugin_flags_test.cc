// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/plugin_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace msitd::msitctl {
namespace {

using ::testing::HasSubstr;

TEST(PluginFlagsTest, MorePluginsThanMetricsOfARowAreRefused) {
  ask::Interrupts interrupts;
  PluginFlags flags;
  flags.plugins.assign(kPluginsMax + 1, "own.py:angle");
  std::vector<std::unique_ptr<ask::Plugin>> plugins;
  const ask::Outcome outcome = StartPlugins(flags, {}, interrupts, plugins);
  EXPECT_EQ(outcome.exit_code, ask::kExitUsage);
  EXPECT_THAT(outcome.error, HasSubstr("17 plug-ins; the maximum is 16"));
}

TEST(PluginFlagsTest, NamesThatReportsAndTheDaemonHaveAreRefused) {
  const std::vector<std::string> of_the_daemon = {"cosine", "rmse"};
  ask::Interrupts interrupts;
  const auto error_of = [&](const std::string& name) {
    PluginFlags flags;
    flags.plugins = {"/nowhere/own.py:angle"};
    flags.names = {name};
    std::vector<std::unique_ptr<ask::Plugin>> plugins;
    const ask::Outcome outcome =
        StartPlugins(flags, of_the_daemon, interrupts, plugins);
    EXPECT_EQ(outcome.exit_code, ask::kExitUsage) << name;
    return outcome.error;
  };
  EXPECT_THAT(error_of("verdict"), HasSubstr("\"verdict\" is a column of rep"));
  EXPECT_THAT(error_of("rmse"), HasSubstr("\"rmse\" is a metric that the dae"));
  EXPECT_THAT(error_of("rms"), HasSubstr("/nowhere/own.py"));
}

}  // namespace
}  // namespace msitd::msitctl
