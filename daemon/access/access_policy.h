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

// Who gets which role, as configured. Of several roles the highest counts.
struct AccessOptions {
  // Members of the socket's group; callers from this machine over plain TCP;
  // callers over TLS whose certificate is named nowhere, or who have none.
  Role unix_role = Role::kWriter;
  Role loopback_role = Role::kReader;
  Role tls_role = Role::kReader;
  // Names or numbers of groups.
  std::vector<std::string> admin_groups;
  std::vector<std::string> writer_groups;
  std::vector<std::string> reader_groups;
  // Globs of names in certificates.
  std::vector<std::string> admin_certificates;
  std::vector<std::string> writer_certificates;
  std::vector<std::string> reader_certificates;
};

// Tells who a caller is, and what it may do. Thread-safe: not changed once it
// is made.
class AccessPolicy {
 public:
  // With the default options.
  AccessPolicy() = default;

  // Looks up the groups.
  //
  // Errors: INVALID_ARGUMENT if there is no such group.
  static absl::StatusOr<AccessPolicy> Create(const AccessOptions& options);

  // A process on this machine. Root and the user of the daemon are admins.
  // `socket_group` is the group of the socket file: its members have the
  // `unix_role`. The mode of the file lets nobody else in, but somebody may
  // have changed it, or passed the socket on. A user that the kernel cannot
  // identify here (Peer::is_known_user) has no role.
  Caller OfUser(const Peer& peer, gid_t socket_group) const;

  // The same for who connects, and needs a role for it.
  //
  // Errors: PERMISSION_DENIED: PEER_REFUSED for a peer without any role,
  // ROLE_REFUSED for one with too low a role.
  absl::StatusOr<Caller> AdmitUser(const Peer& peer, gid_t socket_group,
                                   Role least) const;

  // A peer over TLS whose certificate, which has been checked, has these names:
  // its common name first. None without a certificate.
  Caller OfCertificate(std::span<const std::string> names) const;

  // A process on this machine that came over plain TCP.
  Caller OfLoopback() const;

 private:
  AccessOptions options_;
  std::vector<gid_t> admins_;
  std::vector<gid_t> writers_;
  std::vector<gid_t> readers_;
};

}  // namespace msitd::access
