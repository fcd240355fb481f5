// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/problems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "daemon/config/command_line.h"
#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> KeysOf(const std::vector<KeyProblem>& problems) {
  std::vector<std::string> out;
  for (const KeyProblem& problem : problems) out.push_back(problem.key);
  return out;
}

// A configuration whose directories exist.
class ProblemsTest : public ::testing::Test {
 protected:
  ProblemsTest() {
    config_.data_dir = directory_.path() + "/data";
    config_.socket_dir = directory_.path();
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.path() + "/" + name) << text;
  }

  // Returns what --check-config prints; the problems if it fails.
  std::string Check(const std::string& toml) {
    Write("f.toml", toml);
    const std::string flag = "--config=" + directory_.path() + "/f.toml";
    const char* const args[] = {"msitd", "--check-config", flag.c_str()};
    const auto command = ParseCommandLine(3, args);
    if (!command.ok()) return std::string(Message(command.status()));
    return *command->text;
  }

  std::string Directories() const {
    return "data_dir = '" + config_.data_dir + "'\nsocket_dir = '" +
           config_.socket_dir + "'\n";
  }

  testing::TempDir directory_;
  DaemonConfig config_;
};

TEST_F(ProblemsTest, AllProblemsAreFoundAtOnce) {
  config_.tls_cert = "c";
  config_.tls_client_ca = "";
  config_.admin_certificates = {"*"};
  config_.listen = {"1.2.3.4", "1.2.3.4:5"};
  config_.peers = {"unix:x", "other:1", "127.0.0.1:0"};
  config_.metrics_listen = "0.0.0.0:1";
  EXPECT_THAT(
      KeysOf(FindProblems(config_)),
      ::testing::ElementsAre("tls_cert", "admin_certificates", "peers", "peers",
                             "peers", "metrics_listen", "listen"));
  config_ = DaemonConfig();
  EXPECT_THAT(FindProblems(config_), IsEmpty());
}

TEST_F(ProblemsTest, OtherMachinesNeedATokenForMetrics) {
  config_.metrics_listen = "0.0.0.0:9741";
  EXPECT_THAT(KeysOf(FindProblems(config_)),
              ::testing::ElementsAre("metrics_listen"));
  config_.metrics_token_file = "token";
  EXPECT_THAT(FindProblems(config_), IsEmpty());
}

TEST_F(ProblemsTest, FilesAndGroupsThatAreMissingAreFound) {
  EXPECT_THAT(FindSystemProblems(config_), IsEmpty());
  Write("empty", "");
  Write("text", "not a certificate");
  config_.tls_cert = directory_.path() + "/text";
  config_.tls_key = directory_.path() + "/none";
  config_.peer_ca_file = directory_.path();
  config_.metrics_token_file = directory_.path() + "/empty";
  config_.audit_file = directory_.path() + "/no/such/audit.log";
  config_.reader_groups = {"0", "no-such-group-of-msitd"};
  config_.data_dir = directory_.path() + "/text";
  EXPECT_THAT(KeysOf(FindSystemProblems(config_)),
              ::testing::ElementsAre("data_dir", "tls_cert", "tls_key",
                                     "peer_ca_file", "metrics_token_file",
                                     "audit_file", "reader_groups"));
}

TEST_F(ProblemsTest, TheCheckNamesThePlaceOfEveryProblem) {
  EXPECT_EQ(Check(Directories()), "the configuration is valid\n");
  const std::string text =
      Check(Directories() +
            "data_dri = 'x'\nnice = 50\ntls_key = '/no/such/key'\n"
            "metrics_listen = '0.0.0.0:1'");
  EXPECT_THAT(
      text, AllOf(HasSubstr("/f.toml:3:1: data_dri: no such key; did you mean "
                            "data_dir?\n"),
                  HasSubstr("/f.toml:4:1: nice: 50 is not in 0..19\n"),
                  HasSubstr("/f.toml:5:1: tls_key: read /no/such/key"),
                  HasSubstr("/f.toml:6:1: metrics_listen: '0.0.0.0:1' is "
                            "reachable")));
  EXPECT_THAT(Check("= 5"), HasSubstr("/f.toml:1:1: "));
}

TEST_F(ProblemsTest, AnEmptyFileIsAConfiguration) {
  Write("f.toml", "");
  const std::string flag = "--config=" + directory_.path() + "/f.toml";
  const char* const args[] = {"msitd", flag.c_str(), "--print-config"};
  EXPECT_TRUE(ParseCommandLine(3, args).ok());
  const std::string folder = "--config=" + directory_.path();
  const char* const others[] = {"msitd", folder.c_str(), "--print-config"};
  EXPECT_FALSE(ParseCommandLine(3, others).ok());
}

}  // namespace
}  // namespace msitd::config
