// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/daemon_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/config/command_line.h"
#include "daemon/config/listen_address.h"
#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string TomlError(const std::string& text) {
  DaemonConfig config;
  absl::Status status = ApplyToml(text, "f.toml", config);
  if (status.ok()) status = Validate(config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(Message(status));
}

absl::StatusOr<CommandLine> Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "msitd");
  return ParseCommandLine(static_cast<int>(args.size()), args.data());
}

std::string FlagError(const std::vector<const char*>& args) {
  const auto command = Parse(args);
  EXPECT_FALSE(command.ok());
  return std::string(Message(command.status()));
}

TEST(DaemonConfigTest, ErrorsNameTheFileThePlaceAndTheProblem) {
  struct Case {
    std::string toml;
    std::string error;
  };
  const Case cases[] = {
      {"data_dri = 'x'",
       "f.toml:1:1: data_dri: no such key; did you mean data_dir?"},
      {"\n\n  data_dir = 5",
       "f.toml:3:3: data_dir: is of type integer, expected a string"},
      {"max_streams = '5'",
       "f.toml:1:1: max_streams: is of type string, expected an integer"},
      {"max_streams = 1.5",
       "f.toml:1:1: max_streams: is of type floating-point, expected an "
       "integer"},
      {"max_streams = 0", "f.toml:1:1: max_streams: 0 is not in 1..65536"},
      {"commit_interval_ms = 60001",
       "f.toml:1:1: commit_interval_ms: 60001 is not in 0..60000"},
      {"direct_io = 'yes'",
       "f.toml:1:1: direct_io: is of type string, expected true or false"},
      {"listen = 'x:1'",
       "f.toml:1:1: listen: is of type string, expected an array of strings"},
      {"listen = ['127.0.0.1:1', 5]",
       "f.toml:1:1: listen: has an element that is not a string"},
      {"log_level = 'loud'",
       "f.toml:1:1: log_level: 'loud' is not one of debug, info, warn, error"},
      {"[tls]\ncert = 'x'",
       "f.toml:1:2: tls: no such key; did you mean tls_key?"},
      {"data_dir = ''", "data_dir: is empty"},
      {"socket_dir = ''", "socket_dir: is empty"},
      {"listen = ['127.0.0.1']",
       "listen: '127.0.0.1' is not host:port or [ipv6]:port"},
      {"listen = ['127.0.0.1:70000']",
       "listen: '127.0.0.1:70000' is not host:port or [ipv6]:port"},
      {"listen = ['0.0.0.0:7741']",
       "listen: '0.0.0.0:7741' is reachable from other machines, which "
       "requires tls_cert and tls_key"},
      {"tls_cert = 'c.pem'",
       "tls_cert: tls_cert and tls_key must be set together"},
      {"tls_key = 'k.pem'",
       "tls_key: tls_cert and tls_key must be set together"},
      {"tls_client_ca = 'a.pem'",
       "tls_client_ca: requires tls_cert and tls_key"},
      {"peers = ['node1:7741']",
       "peers: 'node1:7741' is on another machine, which needs peer_ca_file"},
      {"peers = ['127.0.0.1:0']", "peers: '127.0.0.1:0' has no port"},
      {"peers = ['node1']", "peers: 'node1' is not host:port or [ipv6]:port"},
      {"peers = ['unix:run.sock']",
       "peers: 'unix:run.sock' has no absolute path of at most 107 bytes"},
      {"peer_key_file = 'k.pem'",
       "peer_key_file: peer_certificate_file and peer_key_file must be set "
       "together"},
      {"peer_certificate_file = 'c.pem'\npeer_key_file = 'k.pem'",
       "peer_certificate_file: requires peer_ca_file, without which the peer "
       "is not verified"},
      {"peer_timeout_ms = 5",
       "f.toml:1:1: peer_timeout_ms: 5 is not in 100..3600000"},
  };
  for (const Case& c : cases) EXPECT_EQ(TomlError(c.toml), c.error);
}

TEST(DaemonConfigTest, PeersOfThisMachineNeedNoTls) {
  for (const char* text :
       {"peers = ['127.0.0.1:7741', '[::1]:1', 'localhost:2', 'unix:/a.sock']",
        "peers = ['node1:7741']\npeer_ca_file = 'ca.pem'"}) {
    DaemonConfig config;
    ASSERT_TRUE(ApplyToml(text, "f.toml", config).ok());
    EXPECT_TRUE(Validate(config).ok()) << text;
  }
}

TEST(DaemonConfigTest, BrokenTomlIsReportedWithItsPlace) {
  EXPECT_THAT(TomlError("data_dir = \n"), StartsWith("f.toml:1:"));
  EXPECT_THAT(TomlError("a = 1\na = 2\n"), StartsWith("f.toml:2:"));
  EXPECT_THAT(TomlError(std::string("data_dir = '\0'", 14)),
              StartsWith("f.toml:1:"));
}

TEST(DaemonConfigTest, AllBadKeysAreReportedInTheOrderOfTheFile) {
  EXPECT_EQ(TomlError("zeta = 1\nmax_streams = 0\nalpha = 2\n"),
            "f.toml:1:1: zeta: no such key\n"
            "f.toml:2:1: max_streams: 0 is not in 1..65536\n"
            "f.toml:3:1: alpha: no such key");
}

TEST(DaemonConfigTest, TooLongASocketPathIsRefused) {
  const std::string directory(100, 'd');
  EXPECT_THAT(TomlError("socket_dir = '" + directory + "'"),
              AllOf(HasSubstr("socket_dir"), HasSubstr("at most 107")));
}

TEST(DaemonConfigTest, WhatIsPrintedIsReadBack) {
  DaemonConfig config;
  config.data_dir = "/a \"quoted\" \\ place";
  config.listen = {"127.0.0.1:0", "[::1]:5"};
  config.direct_io = false;
  config.durable = false;
  config.max_streams = 7;
  DaemonConfig read;
  ASSERT_TRUE(ApplyToml(ToToml(config), "printed", read).ok());
  EXPECT_EQ(read, config);
}

TEST(DaemonConfigTest, TheShippedFileHasEveryKeyWithItsDefault) {
  std::ifstream file(MSITD_SHIPPED_CONFIG);
  std::ostringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty());
  DaemonConfig config;
  for (const KeyHelp& key : Keys()) {
    EXPECT_THAT(text.str(), HasSubstr("\n" + std::string(key.key) + " = "));
  }
  ASSERT_TRUE(ApplyToml(text.str(), "msitd.toml", config).ok());
  EXPECT_EQ(config, DaemonConfig());
  EXPECT_TRUE(Validate(config).ok());
}

TEST(CommandLineTest, EveryKeyIsAFlag) {
  const auto help = Parse({"--help"});
  ASSERT_TRUE(help.ok());
  for (const KeyHelp& key : Keys()) {
    std::string flag = "--" + std::string(key.key);
    std::replace(flag.begin(), flag.end(), '_', '-');
    EXPECT_THAT(*help->text, HasSubstr(flag));
  }
}

TEST(CommandLineTest, FlagsWinOverTheFile) {
  testing::TempDir directory;
  const std::string path = directory / "msitd.toml";
  std::ofstream(path) << "max_streams = 5\nlog_level = 'warn'\n"
                         "listen = ['127.0.0.1:1']\n";
  const auto command = Parse({"--max-streams", "6", "--listen", "127.0.0.1:0",
                              "--listen=[::1]:0", "--config", path.c_str(),
                              "--direct-io=false"});
  ASSERT_TRUE(command.ok()) << Message(command.status());
  EXPECT_FALSE(command->text.has_value());
  EXPECT_EQ(command->config.max_streams, 6);
  EXPECT_EQ(command->config.log_level, "warn");
  EXPECT_FALSE(command->config.direct_io);
  EXPECT_THAT(command->config.listen, ElementsAre("127.0.0.1:0", "[::1]:0"));
}

TEST(CommandLineTest, NoneLeavesTheUnixSocketAlone) {
  const auto command = Parse({"--listen", "none"});
  ASSERT_TRUE(command.ok()) << Message(command.status());
  EXPECT_THAT(command->config.listen, ElementsAre());
}

TEST(CommandLineTest, ErrorsNameTheFlag) {
  EXPECT_EQ(FlagError({"--max-streams", "many"}),
            "--max-streams: 'many' is not an integer");
  EXPECT_EQ(FlagError({"--max-streams", "0"}),
            "--max-streams: 0 is not in 1..65536");
  EXPECT_EQ(FlagError({"--direct-io", "1"}),
            "--direct-io: '1' is not true or false");
  EXPECT_EQ(FlagError({"--log-level", "loud"}),
            "--log-level: 'loud' is not one of debug, info, warn, error");
  EXPECT_THAT(FlagError({"--no-such-flag", "1"}), HasSubstr("no-such-flag"));
  EXPECT_THAT(FlagError({"--max-streams"}), HasSubstr("max-streams"));
  EXPECT_THAT(FlagError({"stray"}), HasSubstr("stray"));
}

TEST(CommandLineTest, MissingAndBrokenFilesAreErrors) {
  const auto missing = Parse({"--config", "/nonexistent/msitd.toml"});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Message(missing.status())),
              HasSubstr("/nonexistent/msitd.toml"));
  const auto directory = Parse({"--config", "/tmp"});
  EXPECT_FALSE(directory.ok());
}

TEST(CommandLineTest, VersionAndConfigurationArePrinted) {
  EXPECT_THAT(*Parse({"--version"})->text, StartsWith("msitd "));
  const auto printed = Parse({"--print-config", "--max-streams=3"});
  ASSERT_TRUE(printed.ok());
  EXPECT_THAT(*printed->text, HasSubstr("max_streams = 3\n"));
}

TEST(ListenAddressTest, KnowsWhatOnlyThisMachineReaches) {
  struct Case {
    std::string text;
    bool is_loopback;
  };
  const Case cases[] = {
      {"127.0.0.1:0", true},       {"127.8.9.10:7741", true},
      {"[::1]:1", true},           {"localhost:1", true},
      {"0.0.0.0:1", false},        {"[::]:1", false},
      {"10.0.0.1:1", false},       {"example.org:1", false},
      {"localhost.evil:1", false}, {"[::ffff:127.0.0.1]:1", false},
  };
  for (const Case& c : cases) {
    const auto address = ParseListenAddress(c.text);
    ASSERT_TRUE(address.ok()) << c.text;
    EXPECT_EQ(address->is_loopback, c.is_loopback) << c.text;
    EXPECT_EQ(address->ToString(), c.text);
  }
}

TEST(ListenAddressTest, RefusesWhatIsNoAddress) {
  for (const char* text :
       {"", ":", ":80", "host", "host:", "host:x", "host:-1", "host:65536",
        "::1:80", "[::1]", "[]:1", "a b:1", "unix:/x:1", "host:80 "}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

}  // namespace
}  // namespace msitd::config
