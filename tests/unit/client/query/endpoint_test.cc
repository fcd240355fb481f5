// SPDX-License-Identifier: Apache-2.0
#include "client/query/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(EndpointTest, GoodOnesBecomeTargets) {
  EXPECT_EQ(*ParseEndpoint("unix:/run/x.sock"), "unix:/run/x.sock");
  EXPECT_EQ(*ParseEndpoint("node7:7741"), "dns:///node7:7741");
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
  EXPECT_THAT(error_of("node7:0"), HasSubstr("not 1 to 65535"));
  EXPECT_THAT(error_of("node7:65536"), HasSubstr("not 1 to 65535"));
  EXPECT_THAT(error_of("::1:7741"), HasSubstr("the host is none"));
  EXPECT_THAT(error_of("http://node7:7741"), HasSubstr("the host is none"));
  EXPECT_THAT(error_of("unix:"), HasSubstr("no path"));
  EXPECT_THAT(error_of("unix:/" + std::string(107, 'a')),
              HasSubstr("a path over 107 bytes"));
}

TEST(DurationTest, UnitsScale) {
  EXPECT_EQ(*ParseDuration("500ms"), milliseconds(500));
  EXPECT_EQ(*ParseDuration("30s"), milliseconds(30000));
  EXPECT_EQ(*ParseDuration("2"), milliseconds(2000));
  EXPECT_EQ(*ParseDuration("2m"), milliseconds(120000));
  EXPECT_EQ(*ParseDuration("1.5h"), milliseconds(5400000));
}

TEST(DurationTest, NonsenseIsRefused) {
  for (const char* text : {"", "s", "0", "-1s", "1d", "1 s", "inf", "nan",
                           "1e300h", "30sec", "0.1ms"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

}  // namespace
}  // namespace msitd::ctl
