// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include "tests/unit/client/msitctl/msitctl_fixture.h"

namespace msitd::msitctl {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class GlobalFlagsTest : public MsitctlTest {};

TEST_F(GlobalFlagsTest, EndpointComesFromFlagOrVariable) {
  EXPECT_EQ(Run({"node", "status"}).exit_code, 0);
  EXPECT_EQ(Run({"--endpoint", daemon_.tcp_endpoint(), "node", "status"},
                {.environment = {{"MSITCTL_ENDPOINT", "nowhere:1"}}})
                .exit_code,
            0);
  EXPECT_EQ(Run({"node", "status", "--endpoint", daemon_.tcp_endpoint()},
                {.environment = {{"MSITCTL_ENDPOINT", "nowhere:1"}}})
                .exit_code,
            0);
}

TEST_F(GlobalFlagsTest, ADaemonThatIsNotThereIs78) {
  const ChildResult result =
      Run({"--endpoint", "unix:/nonexistent/sock", "run", "list"});
  EXPECT_EQ(result.exit_code, 78);
  EXPECT_THAT(result.err, StartsWith("msitctl: UNAVAILABLE: cannot reach "
                                     "unix:/nonexistent/sock: "));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1);
  EXPECT_THAT(result.out, IsEmpty());
}

TEST_F(GlobalFlagsTest, ADaemonThatIsNotThereCanBeStarted) {
  EXPECT_EQ(
      Run({"--endpoint", "/nonexistent/msitd.sock", "run", "list"}).err,
      "msitctl: UNAVAILABLE: cannot reach /nonexistent/msitd.sock: there is no "
      "such socket; to start a daemon: msitd --data-dir DIR --socket-dir "
      "/nonexistent; to use another one: --endpoint or MSITD_ENDPOINT\n");
  // Only the superuser could listen on port 1.
  EXPECT_THAT(
      Run({"--endpoint", "127.0.0.1:1", "run", "list"}).err,
      HasSubstr(
          "no daemon is running there; to start a daemon: msitd --data-dir DIR "
          "--socket-dir DIR --listen 127.0.0.1:1 --loopback-role writer; to "
          "use "
          "another one"));
}

TEST_F(GlobalFlagsTest, ATimeoutIs68) {
  daemon_.data().list_runs_hangs = true;
  const ChildResult result = Run({"run", "list", "--timeout", "100ms"});
  EXPECT_EQ(result.exit_code, 68);
  EXPECT_THAT(result.err, StartsWith("msitctl: DEADLINE_EXCEEDED"));
}

TEST_F(GlobalFlagsTest, AnInterruptIs130) {
  daemon_.data().list_runs_hangs = true;
  const ChildResult result = Run({"run", "list"}, {.meanwhile = [&](pid_t pid) {
                                   daemon_.WaitForCall("ListRuns");
                                   kill(pid, SIGINT);
                                 }});
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.err, "msitctl: interrupted\n");
}

TEST_F(GlobalFlagsTest, UsageErrorsAre2AndNeedNoDaemon) {
  const std::vector<std::vector<std::string>> wrong = {
      {"run"},
      {"frob"},
      {"run", "frob"},
      {"run", "list", "frob"},
      {"run", "list", "--frob"},
      {"run", "get"},
      {"run", "list", "-o", "yaml"},
      {"run", "list", "--limit", "-1"},
      {"run", "list", "--limit", "x"},
      {"run", "list", "--endpoint", "frob"},
      {"run", "list", "--timeout", "soon"},
      {"run", "list", "--connect-timeout", "0"},
      {"run", "list", "--cert-file", "only.pem"},
      {"run", "create", "r", "--label", "frob"},
      {"tensor", "list"},
      {"tensor", "list", "--run", "r", "--ranks", "1-"},
      {"tensor", "list", "--run", "r", "--tokens", "x"},
      {"tensor", "list", "--run", "r", "--io", "sideways"},
      {"tensor", "list", "--run", "r", "--columns", "frob"},
      {"tensor", "list", "--run", "r", "--ops", ""},
      {"tensor", "list", "--run", "r", "--ranks", ""},
      {"tensor", "list", "--run", "r", "--io=", "--no-color"},
      {"tensor", "list", "--run", "r", "--ops", ","},
      {"tensor", "list", "--run", ""},
      {"tensor", "stats", "--run", "r", "--devices", " , "},
      {"capture", "set", "--run", "r", "--ops", ""},
      {"capture", "set", "--run", "r", "--ops=", "--no-color"},
      {"capture", "set", "--run", "r", "--tokens", ""},
      {"compare", "run", "a", ""},
      {"compare", "run", "a", "b", "--ops", ""},
      {"run", "get", ""},
      {"tensor", "find", "--run", "r"},
      {"tensor", "stats", "--run", "r", "--by", "weather"},
      {"tensor", "read", "n"},
      {"tensor", "read", "n", "--out", "x", "--format", "zip"},
      {"compare", "run", "golden"},
      {"compare", "run", "a", "b", "--rule", "frob"},
      {"compare", "run", "a", "b", "--rows", "some"},
      {"compare", "rows", "c", "--verdict", "maybe"},
      {"help", "frob"},
  };
  for (const auto& arguments : wrong) {
    const ChildResult result = Run(arguments);
    SCOPED_TRACE(::testing::PrintToString(arguments));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, StartsWith("msitctl: "));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
  EXPECT_THAT(daemon_.calls(), IsEmpty());
}

TEST_F(GlobalFlagsTest, AWrongCommandIsNamed) {
  EXPECT_EQ(Run({"run", "frob"}).err,
            "msitctl: \"frob\" is not a command of msitctl run; see msitctl "
            "run --help\n");
  EXPECT_EQ(Run({"run"}).err,
            "msitctl: a command is missing; see msitctl run --help\n");
}

TEST_F(GlobalFlagsTest, WithoutArgumentsTheHelpIsPrinted) {
  const ChildResult result = Run({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_EQ(result.out, Run({"--help"}).out);
}

TEST_F(GlobalFlagsTest, ASlipIsShownWhereItIs) {
  const auto error_of = [this](std::vector<std::string> arguments) {
    const ChildResult result = Run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_EQ(error_of({"comapre", "run", "golden", "weight"}),
            "msitctl: \"comapre\" is not a command of msitctl; did you mean "
            "compare?; see msitctl --help\n");
  EXPECT_THAT(error_of({"-o", "json", "run", "lst"}),
              HasSubstr("\"lst\" is not a command of msitctl run; did you mean "
                        "list?; see msitctl run --help"));
  EXPECT_THAT(error_of({"compare", "run", "g", "t", "--tolerance", "x"}),
              HasSubstr("--tolerance is not a flag of msitctl compare run; did "
                        "you mean --tol?; see"));
  EXPECT_THAT(error_of({"run", "list", "--endpont=x"}),
              HasSubstr("did you mean --endpoint?"));
  EXPECT_THAT(error_of({"run", "get", "a", "b", "c"}),
              HasSubstr("unexpected arguments: b c; see msitctl run get"));
}

TEST_F(GlobalFlagsTest, ARunThatIsNotThereMayBeAnother) {
  AddRun("golden-fp32");
  EXPECT_EQ(Run({"run", "get", "goldne-fp32"}).err,
            "msitctl: NOT_FOUND (RUN_NOT_FOUND): no run \"goldne-fp32\"; did "
            "you mean golden-fp32?\n");
  EXPECT_EQ(Run({"run", "get", "weather"}).err,
            "msitctl: NOT_FOUND (RUN_NOT_FOUND): no run \"weather\"\n");
}

TEST_F(GlobalFlagsTest, NumbersAreRefusedInPlainWords) {
  const auto error_of = [this](std::vector<std::string> arguments) {
    const ChildResult result = Run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  const std::string large(23, '9');
  EXPECT_THAT(
      error_of({"compare", "run", "g", "t", "--token-offset", large}),
      HasSubstr(
          "--token-offset: \"" + large +
          "\" is not a whole number from -1099511627775 to 1099511627775"));
  EXPECT_THAT(error_of({"compare", "report", "c", "--histograms", large}),
              HasSubstr("--histograms: \"" + large +
                        "\" is not a whole number from 0 to 10000"));
  EXPECT_THAT(error_of({"compare", "run", "g", "t", "--top-k", "0"}),
              HasSubstr("--top-k: \"0\" is not a whole number from 1 to 64"));
  EXPECT_THAT(error_of({"run", "retain", "r", "--bytes", "-1"}),
              HasSubstr("--bytes: \"-1\" is not a size such as"));
  EXPECT_THAT(error_of({"run", "retain", "r", "--bytes", large + "GB"}),
              HasSubstr("--bytes: \"" + large + "GB\" is more than"));
  EXPECT_THAT(error_of({"compare", "run", "g", "t", "--plugin-size-max", "x"}),
              HasSubstr("--plugin-size-max: \"x\" is not a size such as"));
  EXPECT_THAT(error_of({"run", "retain", "r", "--age", "x"}),
              HasSubstr("--age: \"x\" is not a duration such as"));
  for (const char* bins : {"0", "2000"}) {
    EXPECT_THAT(error_of({"tensor", "histogram", "n", "--bins", bins}),
                HasSubstr("--bins: \"" + std::string(bins) +
                          "\" is not a whole number from 1 to 1024"));
  }
  EXPECT_THAT(error_of({"tensor", "histogram", "n", "--low", "x"}),
              HasSubstr("--low: \"x\" is not a number such as"));
}

TEST_F(GlobalFlagsTest, WhatIsPrintedOfARetentionIsTaken) {
  AddRun("r");
  const std::string out =
      Run({"run", "retain", "r", "--bytes", "1.5 GiB", "--age", "2d00h"}).out;
  EXPECT_THAT(out, HasSubstr("1.5 GiB\n"));
  EXPECT_THAT(out, HasSubstr("2d00h\n"));
}

TEST_F(GlobalFlagsTest, AWrongVariableIsAUsageError) {
  const ChildResult result =
      Run({"run", "list"}, {.environment = {{"MSITCTL_OUTPUT", "yaml"}}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("\"yaml\""));
}

TEST_F(GlobalFlagsTest, OutputComesFromAVariableToo) {
  AddRun("a");
  EXPECT_EQ(
      Run({"run", "list"}, {.environment = {{"MSITCTL_OUTPUT", "name"}}}).out,
      "a\n");
}

TEST_F(GlobalFlagsTest, HelpAndVersionGoToStdout) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"--help"}, {"run", "get", "--help"}, {"help", "run", "get"}}) {
    const ChildResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, StartsWith("Example:\n"));
    EXPECT_THAT(result.err, IsEmpty());
  }
  EXPECT_THAT(Run({"--version"}).out, ContainsRegex("^msitctl [0-9.]+\n$"));
  EXPECT_THAT(Run({"help", "exit-codes"}).out, HasSubstr("\n 130  "));
}

TEST_F(GlobalFlagsTest, AFullDiskBehindStdoutIs3) {
  AddRun("a");
  const ChildResult result = Run({"run", "list"}, {.stdout_path = "/dev/full"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("write to stdout: No space left"));
}

TEST_F(GlobalFlagsTest, ColorIsForTerminalsOnly) {
  AddRun("a");
  EXPECT_THAT(Run({"run", "list"}).out, Not(HasSubstr("\x1b[")));
  EXPECT_THAT(Run({"run", "list"}, {.stdout_is_terminal = true}).out,
              HasSubstr("\x1b[1mname"));
  EXPECT_THAT(
      Run({"run", "list", "--no-color"}, {.stdout_is_terminal = true}).out,
      Not(HasSubstr("\x1b[")));
  EXPECT_THAT(Run({"run", "list"}, {.environment = {{"MSITCTL_NO_COLOR", "1"}},
                                    .stdout_is_terminal = true})
                  .out,
              Not(HasSubstr("\x1b[")));
}

TEST_F(GlobalFlagsTest, ACertificateThatIsNotThereIs3) {
  const ChildResult result =
      Run({"--ca-file", "/nonexistent/ca.pem", "--endpoint",
           daemon_.tcp_endpoint(), "run", "list"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("/nonexistent/ca.pem"));
}

TEST_F(GlobalFlagsTest, TlsBesideAUnixSocketIsUsage) {
  const ChildResult result =
      Run({"--ca-file", "/nonexistent/ca.pem", "run", "list"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--ca-file"));
  EXPECT_THAT(result.err, HasSubstr("a Unix socket is not encrypted"));
}

TEST_F(GlobalFlagsTest, WithTlsAPlainDaemonIsNotReached) {
  EXPECT_EQ(Run({"--tls", "--endpoint", daemon_.tcp_endpoint(), "run", "list"})
                .exit_code,
            78);
  EXPECT_THAT(daemon_.calls(), Not(Contains("ListRuns")));
}

TEST_F(GlobalFlagsTest, NodeCommandsPrintEveryField) {
  const ChildResult status = Run({"node", "status"});
  EXPECT_THAT(status.out, HasSubstr("storage_state              ok\n"));
  EXPECT_THAT(status.out, HasSubstr("uptime                     3m07s\n"));
  EXPECT_THAT(status.out, HasSubstr("disk_free_bytes            3 GiB\n"));
  EXPECT_THAT(Run({"node", "status", "-o", "json"}).out,
              HasSubstr("\"disk_free_bytes\": \"3221225472\""));
  EXPECT_THAT(Run({"node", "capabilities"}).out,
              HasSubstr("\ncosine    higher_is_better        fused\n"));
  EXPECT_THAT(Run({"node", "capabilities"}).out, Not(HasSubstr("metrics")));
  EXPECT_THAT(Run({"node", "capabilities", "-o", "name"}).out,
              StartsWith("cosine\n"));
  EXPECT_EQ(Run({"node", "status", "-o", "name"}).exit_code, 2);
}

}  // namespace
}  // namespace msitd::msitctl
