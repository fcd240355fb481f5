// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/reloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ReloaderTest, LimitsAndTheLogLevelChangeAndOtherKeysStay) {
  config::DaemonConfig current;
  config::DaemonConfig next = current;
  next.log_level = "debug";
  next.retain_disk_bytes = 5;
  next.data_dir = "/elsewhere";
  next.listen = {"127.0.0.1:1"};
  const ConfigChange change = ChangeOf(current, next);
  EXPECT_THAT(change.applied, ElementsAre("log_level", "retain_disk_bytes"));
  EXPECT_THAT(change.kept, ElementsAre("data_dir", "listen"));
  current.log_level = "debug";
  current.retain_disk_bytes = 5;
  EXPECT_EQ(change.config, current);
}

TEST(ReloaderTest, AnEqualConfigurationChangesNothing) {
  const config::DaemonConfig config;
  const ConfigChange change = ChangeOf(config, config);
  EXPECT_THAT(change.applied, IsEmpty());
  EXPECT_THAT(change.kept, IsEmpty());
}

}  // namespace
}  // namespace msitd::server
