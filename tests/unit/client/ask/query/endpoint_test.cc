// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/ask/text/text.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(EndpointTest, GoodOnesBecomeTargets) {
  EXPECT_EQ(*ParseEndpoint("unix:/run/x.sock"), "unix:/run/x.sock");
  EXPECT_EQ(*ParseEndpoint("/run/x.sock"), "unix:/run/x.sock");
  EXPECT_EQ(*ParseEndpoint("unix:/tmp"), "unix:/tmp/msitd.sock");
  EXPECT_EQ(*ParseEndpoint("/tmp/"), "unix:/tmp/msitd.sock");
  EXPECT_EQ(*ParseEndpoint("node7:7741"), "dns:///node7:7741");
  EXPECT_EQ(*ParseEndpoint("dns:///node7:7741"), "dns:///node7:7741");
  EXPECT_EQ(*ParseEndpoint("127.0.0.1:1"), "dns:///127.0.0.1:1");
  EXPECT_EQ(*ParseEndpoint("[::1]:65535"), "dns:///[::1]:65535");
}

TEST(EndpointTest, BadOnesSayWhy) {
  const auto error_of = [](std::string_view endpoint) {
    return std::string(Message(ParseEndpoint(endpoint).status()));
  };
  EXPECT_THAT(error_of(""), HasSubstr("no port"));
  EXPECT_THAT(error_of("node7"), HasSubstr("no port"));
  EXPECT_THAT(error_of(":7741"), HasSubstr("no host"));
  EXPECT_THAT(error_of("node7:0"), HasSubstr("not in 1..65535"));
  EXPECT_THAT(error_of("node7:65536"), HasSubstr("not in 1..65535"));
  EXPECT_THAT(error_of("::1:7741"), HasSubstr("the host is invalid"));
  EXPECT_THAT(error_of("http://node7:7741"), HasSubstr("the host is invalid"));
  EXPECT_THAT(error_of("unix:"), HasSubstr("no path"));
  EXPECT_THAT(error_of("unix:/" + std::string(107, 'a')),
              HasSubstr("the path is longer than 107 bytes"));
}

TEST(EndpointTest, ADaemonCanBeStartedHereOnly) {
  EXPECT_EQ(StartCommand("unix:/run/msitd/msitd.sock"),
            "msitd --data-dir DIR --socket-dir /run/msitd");
  EXPECT_EQ(StartCommand("/tmp"), "msitd --data-dir DIR --socket-dir /tmp");
  EXPECT_EQ(StartCommand("127.0.0.1:7741"),
            "msitd --data-dir DIR --socket-dir DIR --listen 127.0.0.1:7741 "
            "--loopback-role writer");
  EXPECT_EQ(StartCommand("node7:7741"), "");
}

TEST(DurationTest, UnitsScale) {
  EXPECT_EQ(*ParseDuration("500ms"), milliseconds(500));
  EXPECT_EQ(*ParseDuration("30s"), milliseconds(30000));
  EXPECT_EQ(*ParseDuration("2"), milliseconds(2000));
  EXPECT_EQ(*ParseDuration("2m"), milliseconds(120000));
  EXPECT_EQ(*ParseDuration("1.5h"), milliseconds(5400000));
  EXPECT_EQ(*ParseDuration("2d"), milliseconds(172800000));
  EXPECT_EQ(*ParseDuration("1w"), milliseconds(604800000));
}

TEST(DurationTest, WhatIsPrintedIsTaken) {
  for (const int seconds : {1, 42, 187, 7205, 172800, 180000}) {
    const auto read = ParseDuration(HumanDuration(seconds));
    ASSERT_TRUE(read.ok()) << HumanDuration(seconds);
    EXPECT_EQ(*read, std::chrono::seconds(seconds));
  }
}

TEST(DurationTest, NonsenseIsRefused) {
  for (const char* text :
       {"", "s", "0", "-1s", "1y", "1 s", "1h2", "1m2h", "2s2s", "h2s", "inf",
        "nan", "1e300h", "30sec", "0.1ms"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

}  // namespace
}  // namespace msitd::ask
