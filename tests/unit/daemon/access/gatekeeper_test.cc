// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/gatekeeper.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::access {
namespace {

const Caller kReader{"uid:6", Role::kReader};
const Caller kOwner{"uid:7", Role::kWriter};
const Caller kOther{"uid:8", Role::kWriter};
const Caller kAdmin{"uid:9", Role::kAdmin};

const MethodRule& Delete() { return RuleOf("RunService", "DeleteRun"); }
const MethodRule& Cancel() {
  return RuleOf("ComparisonService", "CancelComparison");
}
const MethodRule& List() { return RuleOf("RunService", "ListRuns"); }
const MethodRule& Read() { return RuleOf("TensorService", "ReadTensor"); }

Gatekeeper::Parts Parts() {
  Gatekeeper::Parts out;
  out.owner_of_run = [](std::string_view name) -> absl::StatusOr<std::string> {
    if (name == "gone") return absl::NotFoundError("no such run");
    if (name == "unreadable") return absl::DataLossError("damaged");
    return "uid:7";
  };
  out.owner_of_comparison =
      [](std::string_view) -> absl::StatusOr<std::string> { return "uid:6"; };
  return out;
}

TEST(GatekeeperTest, AMethodNeedsItsRole) {
  Gatekeeper gate(Parts());
  EXPECT_TRUE(gate.CheckTarget(kReader, List(), "").ok());
  EXPECT_EQ(Reason(gate.CheckTarget(kReader, Delete(), "a")), "ROLE_REFUSED");
  EXPECT_EQ(Reason(gate.CheckTarget(kReader, Delete(), "gone")),
            "ROLE_REFUSED");
  EXPECT_TRUE(gate.CheckTarget(kOther, Delete(), "gone").ok());
  EXPECT_EQ(Reason(gate.CheckTarget({}, List(), "")), "ROLE_REFUSED");
}

TEST(GatekeeperTest, TheRequestOfACallerWithoutARoleIsNotRead) {
  Gatekeeper gate(Parts());
  EXPECT_EQ(Reason(gate.Enter({}, List())), "ROLE_REFUSED");
  EXPECT_EQ(Reason(gate.Enter({"tls", Role::kNone}, Delete())), "ROLE_REFUSED");
  EXPECT_TRUE(gate.Enter(kReader, Delete()).ok());
}

TEST(GatekeeperTest, OnlyTheOwnerAndAdminsChange) {
  Gatekeeper gate(Parts());
  EXPECT_TRUE(gate.CheckTarget(kOwner, Delete(), "a").ok());
  EXPECT_TRUE(gate.CheckTarget(kAdmin, Delete(), "a").ok());
  EXPECT_EQ(Reason(gate.CheckTarget(kOther, Delete(), "a")), "NOT_OWNER");
  EXPECT_TRUE(gate.CheckTarget(kReader, Cancel(), "1").ok());
  EXPECT_EQ(Reason(gate.CheckTarget(kOwner, Cancel(), "1")), "NOT_OWNER");
  EXPECT_TRUE(gate.CheckTarget(kReader, Read(), "a").ok());
}

TEST(GatekeeperTest, WhatIsNotThereIsForTheCallToSay) {
  Gatekeeper gate(Parts());
  EXPECT_TRUE(gate.CheckTarget(kOther, Delete(), "gone").ok());
}

TEST(GatekeeperTest, AnOwnerWhoCannotBeReadIsNoOwner) {
  Gatekeeper gate(Parts());
  EXPECT_TRUE(
      absl::IsDataLoss(gate.CheckTarget(kOther, Delete(), "unreadable")));
}

TEST(GatekeeperTest, CallsAreCounted) {
  Gatekeeper::Parts parts = Parts();
  parts.calls_per_s = 1;
  Gatekeeper gate(std::move(parts));
  int count = 0;
  for (int i = 0; i < 100; ++i) count += gate.Enter(kReader, List()).ok();
  EXPECT_GE(count, 2);
  EXPECT_LT(count, 50);
}

TEST(GatekeeperTest, ReadsChangesAndRefusalsAreWrittenDown) {
  const testing::TempDir directory;
  const std::string path = directory / "audit";
  {
    Gatekeeper::Parts parts = Parts();
    parts.audit = *AuditLog::Open(path);
    Gatekeeper gate(std::move(parts));
    gate.Note(kReader, "p", List(), "", absl::OkStatus());
    gate.Note(kReader, "p", Read(), "t", absl::OkStatus());
    gate.Note(kOwner, "p", Delete(), "a", absl::NotFoundError("no"));
    gate.Note({}, "p", List(), "", gate.Enter({}, List()));
  }
  std::ifstream file(path);
  std::vector<std::string> methods;
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find("\"method\":\"") + 10;
    methods.push_back(line.substr(begin, line.find('"', begin) - begin));
  }
  EXPECT_EQ(methods, (std::vector<std::string>{"TensorService.ReadTensor",
                                               "RunService.DeleteRun",
                                               "RunService.ListRuns"}));
}

TEST(GatekeeperTest, AnotherAuditLogReceivesTheCallsThatFollow) {
  const testing::TempDir directory;
  const auto lines_in = [&directory](const char* name) {
    std::ifstream file(directory / name);
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  };
  Gatekeeper::Parts parts = Parts();
  parts.audit = *AuditLog::Open(directory / "a");
  Gatekeeper gate(std::move(parts));
  gate.Note(kOwner, "p", Delete(), "x", absl::OkStatus());
  gate.SetAudit(*AuditLog::Open(directory / "b"));
  EXPECT_EQ(lines_in("a"), 1);
  gate.Note(kOwner, "p", Delete(), "y", absl::OkStatus());
  gate.Note(kOwner, "p", Delete(), "z", absl::OkStatus());
  gate.SetAudit(nullptr);
  EXPECT_EQ(lines_in("b"), 2);
  gate.Note(kOwner, "p", Delete(), "z", absl::OkStatus());
  EXPECT_EQ(lines_in("a") + lines_in("b"), 3);
}

TEST(GatekeeperTest, TheLimitOfCallsCanChange) {
  Gatekeeper gate(Parts());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(gate.Enter(kReader, List()).ok());
  gate.SetCallsPerSecond(1);
  EXPECT_TRUE(gate.Enter(kReader, List()).ok());
  EXPECT_TRUE(gate.Enter(kReader, List()).ok());
  EXPECT_EQ(Reason(gate.Enter(kReader, List())), "REQUESTS_EXHAUSTED");
}

}  // namespace
}  // namespace msitd::access
