// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/caller.h"

#include <fmt/format.h>

#include <array>

#include "protos/status/status.h"

namespace msitd::access {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"none", "reader", "writer",
                                                    "admin"};

absl::Status NotOwner(const Caller& caller, std::string_view owner,
                      std::string_view what) {
  return WithReason(
      MakeStatus(absl::StatusCode::kPermissionDenied,
                 "{} belongs to {}: {} may not change it, an admin may", what,
                 owner.empty() ? "nobody" : owner, caller.name),
      ErrorReason::kNotOwner);
}

}  // namespace

std::string_view RoleName(Role role) {
  return kRoles[static_cast<size_t>(role)];
}

std::optional<Role> ParseRole(std::string_view name) {
  for (size_t i = 0; i < kRoles.size(); ++i) {
    if (kRoles[i] == name) return static_cast<Role>(i);
  }
  return std::nullopt;
}

absl::Status CheckRole(const Caller& caller, Role role, std::string_view what) {
  if (caller.role >= role) return absl::OkStatus();
  return WithReason(
      MakeStatus(absl::StatusCode::kPermissionDenied,
                 "{} needs the role {}; {} has the role {}", what,
                 RoleName(role),
                 caller.name.empty() ? "an unknown caller" : caller.name,
                 RoleName(caller.role)),
      ErrorReason::kRoleRefused);
}

absl::Status CheckOwner(const Caller& caller, std::string_view owner,
                        std::string_view what) {
  if (caller.role == Role::kAdmin) return absl::OkStatus();
  if (!caller.name.empty() && caller.name == owner) return absl::OkStatus();
  return NotOwner(caller, owner, what);
}

absl::Status CheckMayAdd(const Caller& caller, std::string_view owner,
                         std::string_view run) {
  if (owner.empty()) return absl::OkStatus();
  return CheckOwner(caller, owner, fmt::format("run '{}'", run));
}

}  // namespace msitd::access
