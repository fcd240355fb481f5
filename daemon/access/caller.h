// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace msitd::access {

// What a caller may do; each role may do what those before it may.
enum class Role {
  kNone,    // Ask for health.
  kReader,  // Ask, and compare.
  kWriter,  // Record, and change what is the caller's own.
  kAdmin,   // Change what is others'.
};

// "none", "reader", "writer" or "admin".
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

// Who asks for something, as far as it can be proven.
struct Caller {
  // "uid:1000", "cert:NAME", "loopback" or "tls". Runs have it as their owner.
  // Empty for nobody.
  std::string name;
  Role role = Role::kNone;

  friend bool operator==(const Caller&, const Caller&) = default;
};

// The daemon itself, where it does what nobody has asked for.
inline Caller Daemon() { return {"", Role::kAdmin}; }

// "writer uid:1000", and back. Nobody if `text` is none.
std::string ToText(const Caller& caller);
Caller ParseCaller(std::string_view text);

// Checks that the caller has a role, to do `what`.
//
// Errors: PERMISSION_DENIED (ROLE_REFUSED).
absl::Status CheckRole(const Caller& caller, Role role, std::string_view what);

// Checks that the caller may change what belongs to `owner`: its own things,
// or, as an admin, anybody's. What has no owner is the admins'.
//
// Errors: PERMISSION_DENIED (NOT_OWNER).
absl::Status CheckOwner(const Caller& caller, std::string_view owner,
                        std::string_view what);

// Checks that the caller may add to `run`: also to one without an owner, which
// is from before runs had any.
//
// Errors: PERMISSION_DENIED (NOT_OWNER).
absl::Status CheckMayAdd(const Caller& caller, std::string_view owner,
                         std::string_view run);

}  // namespace msitd::access
