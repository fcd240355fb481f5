// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/access_policy.h"

#include <fmt/format.h>
#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "protos/base/glob.h"
#include "protos/status/status.h"

namespace msitd::access {
namespace {

// Returns the number of a group, or nothing if there is no such group.
std::optional<gid_t> FindGroup(const std::string& name) {
  constexpr size_t kBufferBytesMax = size_t{1} << 20;
  struct group entry {};
  struct group* found = nullptr;
  // The buffer must hold the names of all members of the group.
  std::vector<char> buffer(size_t{4} << 10);
  while (::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(),
                      &found) == ERANGE &&
         buffer.size() < kBufferBytesMax) {
    buffer.resize(buffer.size() * 4);
  }
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

// `key` is the name of the option.
absl::StatusOr<std::vector<gid_t>> FindGroups(
    std::string_view key, const std::vector<std::string>& names) {
  std::vector<gid_t> out;
  for (const std::string& name : names) {
    gid_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, number);
    if (error == std::errc() && stop == end) {
      out.push_back(number);
      continue;
    }
    const std::optional<gid_t> found = FindGroup(name);
    if (!found.has_value()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{}: there is no group '{}'", key, name);
    }
    out.push_back(*found);
  }
  return out;
}

bool HasAny(std::span<const gid_t> of, const std::vector<gid_t>& groups) {
  return std::any_of(of.begin(), of.end(), [&groups](gid_t each) {
    return std::find(groups.begin(), groups.end(), each) != groups.end();
  });
}

bool MatchesAny(std::span<const std::string> names,
                const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(), [names](const auto& glob) {
    return std::any_of(names.begin(), names.end(), [&glob](const auto& name) {
      return GlobMatch(glob, name);
    });
  });
}

}  // namespace

absl::StatusOr<AccessPolicy> AccessPolicy::Create(
    const AccessOptions& options) {
  AccessPolicy out;
  out.options_ = options;
  MSITD_ASSIGN_OR_RETURN(out.admins_,
                         FindGroups("admin_groups", options.admin_groups));
  MSITD_ASSIGN_OR_RETURN(out.writers_,
                         FindGroups("writer_groups", options.writer_groups));
  MSITD_ASSIGN_OR_RETURN(out.readers_,
                         FindGroups("reader_groups", options.reader_groups));
  return out;
}

Caller AccessPolicy::OfUser(const Peer& peer, gid_t socket_group) const {
  if (!peer.is_known_user) return {"uid:unknown", Role::kNone};
  std::vector<gid_t> groups = peer.groups;
  groups.push_back(peer.gid);
  Role role = Role::kNone;
  if (HasAny(groups, {socket_group})) role = options_.unix_role;
  if (HasAny(groups, readers_)) role = std::max(role, Role::kReader);
  if (HasAny(groups, writers_)) role = std::max(role, Role::kWriter);
  if (peer.uid == 0 || peer.uid == ::geteuid() || HasAny(groups, admins_)) {
    role = Role::kAdmin;
  }
  return {fmt::format("uid:{}", peer.uid), role};
}

absl::StatusOr<Caller> AccessPolicy::AdmitUser(const Peer& peer,
                                               gid_t socket_group,
                                               Role least) const {
  Caller caller = OfUser(peer, socket_group);
  if (!peer.is_known_user) {
    return WithReason(
        MakeStatus(absl::StatusCode::kPermissionDenied,
                   "msitd runs in a user namespace without the user of this "
                   "process, and cannot tell its runs from those of others; "
                   "run msitd in the namespace of its callers, for example "
                   "with PrivateUsers=no in the unit"),
        ErrorReason::kPeerRefused);
  }
  if (caller.role == Role::kNone) {
    return WithReason(
        MakeStatus(absl::StatusCode::kPermissionDenied,
                   "user {} is neither that of the daemon nor in group {}, and "
                   "no group of theirs has a role",
                   peer.uid, socket_group),
        ErrorReason::kPeerRefused);
  }
  MSITD_RETURN_IF_ERROR(CheckRole(caller, least, "this socket"));
  return caller;
}

Caller AccessPolicy::OfCertificate(std::span<const std::string> names) const {
  if (names.empty()) return {"tls", options_.tls_role};
  Role role = options_.tls_role;
  if (MatchesAny(names, options_.reader_certificates)) {
    role = std::max(role, Role::kReader);
  }
  if (MatchesAny(names, options_.writer_certificates)) {
    role = std::max(role, Role::kWriter);
  }
  if (MatchesAny(names, options_.admin_certificates)) role = Role::kAdmin;
  return {"cert:" + names.front(), role};
}

Caller AccessPolicy::OfLoopback() const {
  return {"loopback", options_.loopback_role};
}

}  // namespace msitd::access
