// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace msitd::access {

// Permissions of a caller. Each role includes the permissions of the previous
// ones.
enum class Role {
  kNone,    // May only query the health service.
  kReader,  // May read, and compare runs.
  kWriter,  // May record, and change its own objects.
  kAdmin,   // May change objects of other callers.
};

// Returns "none", "reader", "writer" or "admin".
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

// The authenticated originator of a call.
struct Caller {
  // "uid:1000", "cert:NAME", "loopback" or "tls"; stored as the owner of runs.
  // Empty if the caller has no identity.
  std::string name;
  Role role = Role::kNone;

  friend bool operator==(const Caller&, const Caller&) = default;
};

// Returns the caller that represents the daemon itself, for actions that no
// client requested.
inline Caller Daemon() { return {"", Role::kAdmin}; }

// Checks that the caller has at least `role`. `what` describes the action in
// the error message.
//
// Errors: PERMISSION_DENIED (ROLE_REFUSED).
absl::Status CheckRole(const Caller& caller, Role role, std::string_view what);

// Checks that the caller may change an object that belongs to `owner`. Callers
// may change their own objects; admins may change any object. Only admins may
// change objects without an owner.
//
// Errors: PERMISSION_DENIED (NOT_OWNER).
absl::Status CheckOwner(const Caller& caller, std::string_view owner,
                        std::string_view what);

// Checks that the caller may add to `run`. Every writer may add to a run
// without an owner, which was created before runs had owners.
//
// Errors: PERMISSION_DENIED (NOT_OWNER).
absl::Status CheckMayAdd(const Caller& caller, std::string_view owner,
                         std::string_view run);

}  // namespace msitd::access
