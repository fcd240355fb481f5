// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "daemon/access/peer.h"

namespace msitd::access {

// The configured roles of callers. A caller that qualifies for several roles
// has the highest one.
struct AccessOptions {
  // Default roles, respectively: members of the socket's group; local callers
  // over plain TCP; callers over TLS without a certificate, or with one that
  // matches no glob below.
  Role unix_role = Role::kWriter;
  Role loopback_role = Role::kReader;
  Role tls_role = Role::kReader;
  // Names or numeric ids of groups.
  std::vector<std::string> admin_groups;
  std::vector<std::string> writer_groups;
  std::vector<std::string> reader_groups;
  // Globs that are matched against the names in certificates.
  std::vector<std::string> admin_certificates;
  std::vector<std::string> writer_certificates;
  std::vector<std::string> reader_certificates;
};

// Identifies callers and determines their roles. Immutable after construction
// and therefore thread-safe.
class AccessPolicy {
 public:
  // Uses the default options.
  AccessPolicy() = default;

  // Resolves the group names.
  //
  // Errors: INVALID_ARGUMENT if a group does not exist. The message starts with
  // the name of the option.
  static absl::StatusOr<AccessPolicy> Create(const AccessOptions& options);

  // Returns the caller for a process on this machine. Root and the daemon's own
  // user are admins. `socket_group` is the group of the socket file; its
  // members have the `unix_role`. The mode of the file excludes other users,
  // but it may have been changed, or the socket may have been passed on to
  // another process. A user that the kernel cannot identify here
  // (Peer::is_known_user) has no role.
  Caller OfUser(const Peer& peer, gid_t socket_group) const;

  // Like OfUser, for a connecting peer that needs at least the role `least`.
  //
  // Errors: PERMISSION_DENIED: PEER_REFUSED if the peer has no role,
  // ROLE_REFUSED if its role is too low.
  absl::StatusOr<Caller> AdmitUser(const Peer& peer, gid_t socket_group,
                                   Role least) const;

  // Returns the caller for a TLS peer whose verified certificate has these
  // names, the common name first. `names` is empty if the peer has no
  // certificate.
  Caller OfCertificate(std::span<const std::string> names) const;

  // Returns the caller for a process on this machine that connected over plain
  // TCP.
  Caller OfLoopback() const;

 private:
  AccessOptions options_;
  std::vector<gid_t> admins_;
  std::vector<gid_t> writers_;
  std::vector<gid_t> readers_;
};

}  // namespace msitd::access
