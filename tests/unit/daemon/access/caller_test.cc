// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/caller.h"

#include <gtest/gtest.h>

#include "protos/status/status.h"

namespace msitd::access {
namespace {

TEST(CallerTest, NamesOfRolesAreReadBack) {
  for (const Role role :
       {Role::kNone, Role::kReader, Role::kWriter, Role::kAdmin}) {
    EXPECT_EQ(ParseRole(RoleName(role)), role);
  }
  EXPECT_FALSE(ParseRole("root").has_value());
  EXPECT_FALSE(ParseRole("").has_value());
}

TEST(CallerTest, ARoleMayWhatThoseBelowItMay) {
  const Caller writer{"uid:7", Role::kWriter};
  EXPECT_TRUE(CheckRole(writer, Role::kReader, "it").ok());
  EXPECT_TRUE(CheckRole(writer, Role::kWriter, "it").ok());
  const absl::Status refused = CheckRole(writer, Role::kAdmin, "it");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Reason(refused), "ROLE_REFUSED");
  EXPECT_EQ(Message(refused),
            "it needs the role admin; uid:7 has the role writer");
}

TEST(CallerTest, OwnersAndAdminsMayChange) {
  const Caller owner{"uid:7", Role::kWriter};
  const Caller other{"uid:8", Role::kWriter};
  const Caller admin{"uid:9", Role::kAdmin};
  EXPECT_TRUE(CheckOwner(owner, "uid:7", "run 'a'").ok());
  EXPECT_TRUE(CheckOwner(admin, "uid:7", "run 'a'").ok());
  const absl::Status refused = CheckOwner(other, "uid:7", "run 'a'");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Reason(refused), "NOT_OWNER");
  EXPECT_TRUE(CheckMayAdd(owner, "uid:7", "a").ok());
  EXPECT_EQ(Reason(CheckMayAdd(other, "uid:7", "a")), "NOT_OWNER");
}

TEST(CallerTest, WhatHasNoOwnerIsTheAdminsButTakesMore) {
  const Caller writer{"uid:7", Role::kWriter};
  EXPECT_EQ(Reason(CheckOwner(writer, "", "run 'a'")), "NOT_OWNER");
  EXPECT_TRUE(CheckMayAdd(writer, "", "a").ok());
  EXPECT_TRUE(CheckOwner(Daemon(), "", "run 'a'").ok());
}

TEST(CallerTest, NobodyOwnsNothing) {
  const Caller nobody{"", Role::kWriter};
  EXPECT_EQ(Reason(CheckOwner(nobody, "", "run 'a'")), "NOT_OWNER");
}

}  // namespace
}  // namespace msitd::access
