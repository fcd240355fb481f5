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

TEST(ReloaderTest, RolesAndTheirNamesChange) {
  const config::DaemonConfig current;
  config::DaemonConfig next = current;
  next.unix_role = "reader";
  next.admin_groups = {"root"};
  next.reader_certificates = {"a*"};
  next.caller_calls_per_s = 7;
  next.tls_client_ca = "/ca.pem";
  const ConfigChange change = ChangeOf(current, next);
  EXPECT_THAT(change.applied,
              ElementsAre("unix_role", "admin_groups", "reader_certificates",
                          "caller_calls_per_s"));
  EXPECT_THAT(change.kept, ElementsAre("tls_client_ca"));
  // Without the CA, the names of certificates are not valid.
  EXPECT_FALSE(config::Validate(change.config).ok());
}

TEST(ReloaderTest, EveryKeyIsEitherReloadableOrNamed) {
  int reloadable_count = 0;
  for (const config::KeyHelp& key : config::Keys()) {
    reloadable_count += IsReloadable(key.key);
  }
  EXPECT_EQ(reloadable_count, 26);
  EXPECT_FALSE(IsReloadable("data_dir"));
  EXPECT_FALSE(IsReloadable(""));
}

}  // namespace
}  // namespace msitd::server
