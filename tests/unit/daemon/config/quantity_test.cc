// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/quantity.h"

#include <gtest/gtest.h>

#include "daemon/config/daemon_config.h"

namespace msitd::config {
namespace {

TEST(QuantityTest, NumbersHaveTheUnitOfTheirKey) {
  EXPECT_EQ(*ParseQuantity("200", Unit::kNone), 200);
  EXPECT_EQ(*ParseQuantity("-5", Unit::kNone), -5);
  EXPECT_EQ(*ParseQuantity("200GB", Unit::kBytes), int64_t{200} << 30);
  EXPECT_EQ(*ParseQuantity("200GiB", Unit::kBytes), int64_t{200} << 30);
  EXPECT_EQ(*ParseQuantity("20000", Unit::kMilliseconds), 20'000);
  EXPECT_EQ(*ParseQuantity("20s", Unit::kMilliseconds), 20'000);
  EXPECT_EQ(*ParseQuantity("2d12h", Unit::kSeconds), 60 * 3600);
  EXPECT_EQ(*ParseQuantity("0", Unit::kSeconds), 0);
}

TEST(QuantityTest, OtherTextIsRefused) {
  EXPECT_FALSE(ParseQuantity("", Unit::kNone).ok());
  EXPECT_FALSE(ParseQuantity("5x", Unit::kNone).ok());
  EXPECT_FALSE(ParseQuantity("1GB", Unit::kNone).ok());
  EXPECT_FALSE(ParseQuantity("1h", Unit::kBytes).ok());
  EXPECT_FALSE(ParseQuantity("1GB", Unit::kSeconds).ok());
  EXPECT_FALSE(ParseQuantity("1500ms", Unit::kSeconds).ok());
  EXPECT_FALSE(ParseQuantity("99999999999999999999", Unit::kBytes).ok());
}

TEST(QuantityTest, TheNameOfAKeyHasItsUnit) {
  EXPECT_EQ(UnitOf("retain_disk_free_bytes"), Unit::kBytes);
  EXPECT_EQ(UnitOf("ring_bytes_max"), Unit::kBytes);
  EXPECT_EQ(UnitOf("verify_bytes_per_s"), Unit::kBytes);
  EXPECT_EQ(UnitOf("drain_timeout_ms"), Unit::kMilliseconds);
  EXPECT_EQ(UnitOf("retain_age_s"), Unit::kSeconds);
  EXPECT_EQ(UnitOf("caller_calls_per_s"), Unit::kNone);
  EXPECT_EQ(UnitOf("max_streams"), Unit::kNone);
  EXPECT_EQ(UnitOf("retain_tokens"), Unit::kNone);
}

TEST(QuantityTest, TheFileAndFlagsTakeUnits) {
  DaemonConfig config;
  ASSERT_TRUE(ApplyToml("retain_disk_bytes = '200GB'\nretain_age_s = '2d'\n"
                        "drain_timeout_ms = 5",
                        "f", config)
                  .ok());
  EXPECT_EQ(config.retain_disk_bytes, int64_t{200} << 30);
  EXPECT_EQ(config.retain_age_s, 2 * 24 * 3600);
  EXPECT_EQ(config.drain_timeout_ms, 5);
  const std::string values[] = {"8MiB"};
  ASSERT_TRUE(ApplyFlag("verify_bytes_per_s", values, config).ok());
  EXPECT_EQ(config.verify_bytes_per_s, 8 << 20);
}

}  // namespace
}  // namespace msitd::config
