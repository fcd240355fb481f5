// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/access_policy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "protos/status/status.h"

namespace msitd::access {
namespace {

constexpr gid_t kSocketGroup = 4242;

Peer User(uid_t uid, std::vector<gid_t> groups) {
  return {.pid = 1, .uid = uid, .gid = 77, .groups = std::move(groups)};
}

// Returns a user that is neither root nor the user of the tests.
uid_t Somebody() { return ::geteuid() + 1000; }

Role RoleOf(const AccessOptions& options, std::vector<gid_t> groups) {
  const auto policy = AccessPolicy::Create(options);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy->OfUser(User(Somebody(), std::move(groups)), kSocketGroup).role;
}

TEST(AccessPolicyTest, MembersOfTheSocketGroupAreWriters) {
  const AccessPolicy policy;
  EXPECT_EQ(policy.OfUser(User(Somebody(), {kSocketGroup}), kSocketGroup).role,
            Role::kWriter);
  Peer by_first_group = User(Somebody(), {});
  by_first_group.gid = kSocketGroup;
  EXPECT_EQ(policy.OfUser(by_first_group, kSocketGroup).role, Role::kWriter);
  EXPECT_EQ(policy.OfUser(User(Somebody(), {5}), kSocketGroup).role,
            Role::kNone);
}

TEST(AccessPolicyTest, UsersThatTheKernelCannotIdentifyAreRefused) {
  AccessOptions options;
  options.admin_groups = {"9"};
  const auto policy = AccessPolicy::Create(options);
  ASSERT_TRUE(policy.ok()) << policy.status();
  Peer peer = User(Somebody(), {kSocketGroup, 9});
  EXPECT_EQ(policy->OfUser(peer, kSocketGroup).role, Role::kAdmin);
  peer.is_known_user = false;
  EXPECT_EQ(policy->OfUser(peer, kSocketGroup).role, Role::kNone);
  const auto caller = policy->AdmitUser(peer, kSocketGroup, Role::kReader);
  EXPECT_TRUE(HasReason(caller.status(), ErrorReason::kPeerRefused));
  EXPECT_NE(caller.status().message().find("PrivateUsers=no"),
            std::string::npos);
}

TEST(AccessPolicyTest, RootAndTheOwnUserAreAdmins) {
  const AccessPolicy policy;
  EXPECT_EQ(policy.OfUser(User(0, {}), kSocketGroup),
            (Caller{"uid:0", Role::kAdmin}));
  EXPECT_EQ(policy.OfUser(User(::geteuid(), {}), kSocketGroup).role,
            Role::kAdmin);
}

TEST(AccessPolicyTest, TheHighestRoleCounts) {
  AccessOptions options;
  options.reader_groups = {"7"};
  options.writer_groups = {"8"};
  options.admin_groups = {"9"};
  EXPECT_EQ(RoleOf(options, {7}), Role::kReader);
  EXPECT_EQ(RoleOf(options, {7, 8}), Role::kWriter);
  EXPECT_EQ(RoleOf(options, {8, 9, 7}), Role::kAdmin);
  EXPECT_EQ(RoleOf(options, {7, kSocketGroup}), Role::kWriter);
  options.unix_role = Role::kNone;
  EXPECT_EQ(RoleOf(options, {kSocketGroup}), Role::kNone);
}

TEST(AccessPolicyTest, GroupsHaveNamesToo) {
  AccessOptions options;
  options.admin_groups = {"root"};
  EXPECT_EQ(RoleOf(options, {0}), Role::kAdmin);
  options.admin_groups = {"there-is-no-such-group"};
  const auto policy = AccessPolicy::Create(options);
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(policy.status()),
            "admin_groups: there is no group 'there-is-no-such-group'");
}

TEST(AccessPolicyTest, WhoHasNoRoleIsRefused) {
  const AccessPolicy policy;
  const auto stranger =
      policy.AdmitUser(User(Somebody(), {}), kSocketGroup, Role::kReader);
  EXPECT_EQ(Reason(stranger.status()), "PEER_REFUSED");
  AccessOptions options;
  options.reader_groups = {"7"};
  const auto with_readers = AccessPolicy::Create(options);
  EXPECT_TRUE(
      with_readers
          ->AdmitUser(User(Somebody(), {7}), kSocketGroup, Role::kReader)
          .ok());
  EXPECT_EQ(
      Reason(with_readers
                 ->AdmitUser(User(Somebody(), {7}), kSocketGroup, Role::kWriter)
                 .status()),
      "ROLE_REFUSED");
}

TEST(AccessPolicyTest, CertificatesHaveRolesByAnyOfTheirNames) {
  AccessOptions options;
  options.tls_role = Role::kNone;
  options.reader_certificates = {"*.lab"};
  options.writer_certificates = {"rank-?"};
  options.admin_certificates = {"operator"};
  const auto policy = AccessPolicy::Create(options);
  using Names = std::vector<std::string>;
  EXPECT_EQ(policy->OfCertificate(Names{"board.lab"}),
            (Caller{"cert:board.lab", Role::kReader}));
  EXPECT_EQ(policy->OfCertificate(Names{"x", "rank-1"}),
            (Caller{"cert:x", Role::kWriter}));
  EXPECT_EQ(policy->OfCertificate(Names{"rank-10"}).role, Role::kNone);
  EXPECT_EQ(policy->OfCertificate(Names{"a.lab", "operator"}).role,
            Role::kAdmin);
  EXPECT_EQ(policy->OfCertificate(Names{}), (Caller{"tls", Role::kNone}));
}

TEST(AccessPolicyTest, LoopbackReadsUnlessToldOtherwise) {
  EXPECT_EQ(AccessPolicy().OfLoopback(), (Caller{"loopback", Role::kReader}));
}

}  // namespace
}  // namespace msitd::access
