// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/exit_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/ask/query/outcome.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;

TEST(ExitCodeTest, EveryCodeOfGrpcIsItsNumberAbove64) {
  EXPECT_EQ(ExitCodeOf(grpc::StatusCode::OK), 0);
  EXPECT_EQ(ExitCodeOf(grpc::StatusCode::CANCELLED), 65);
  EXPECT_EQ(ExitCodeOf(grpc::StatusCode::NOT_FOUND), 69);
  EXPECT_EQ(ExitCodeOf(grpc::StatusCode::UNAVAILABLE), 78);
  EXPECT_EQ(ExitCodeOf(grpc::StatusCode::UNAUTHENTICATED), 80);
}

TEST(ExitCodeTest, NamesAreCanonical) {
  EXPECT_STREQ(CodeName(grpc::StatusCode::DEADLINE_EXCEEDED),
               "DEADLINE_EXCEEDED");
  EXPECT_STREQ(CodeName(static_cast<grpc::StatusCode>(99)), "UNKNOWN");
}

TEST(ExitCodeTest, HelpHasEveryCode) {
  const std::string help = "\n" + ExitCodeHelp();
  for (const int code : {0, 1, 2, 3, 130}) {
    EXPECT_THAT(help, HasSubstr("\n" + std::string(code < 10 ? "   " : " ") +
                                std::to_string(code) + "  "));
  }
  for (int code = 65; code <= 80; ++code) {
    EXPECT_THAT(help, HasSubstr("\n  " + std::to_string(code) + "  "));
  }
}

TEST(OutcomeTest, ReasonComesFromTheDetails) {
  google::rpc::ErrorInfo info;
  info.set_reason("RUN_NOT_FOUND");
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  const Outcome outcome =
      DaemonError(grpc::Status(grpc::StatusCode::NOT_FOUND, "no run \"x\"",
                               details.SerializeAsString()));
  EXPECT_EQ(outcome.exit_code, 69);
  EXPECT_EQ(outcome.error, "NOT_FOUND (RUN_NOT_FOUND): no run \"x\"");
  EXPECT_EQ(outcome.reason, "RUN_NOT_FOUND");
}

TEST(OutcomeTest, DetailsThatAreNoneAreIgnored) {
  const Outcome outcome = DaemonError(
      grpc::Status(grpc::StatusCode::INTERNAL, "boom", "\xff\xff not a proto"));
  EXPECT_EQ(outcome.error, "INTERNAL: boom");
}

TEST(OutcomeTest, AnErrorStaysOnOneHarmlessLine) {
  const Outcome outcome = DaemonError(
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no run \"a\n\x1b[2Jb\""));
  EXPECT_EQ(outcome.error, "NOT_FOUND: no run \"a\\n\\x1b[2Jb\"");
}

}  // namespace
}  // namespace msitd::ask
