// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/gatekeeper.h"

#include <fmt/format.h>

#include "protos/status/status.h"

namespace msitd::access {

void Gatekeeper::SetAudit(std::unique_ptr<AuditLog> audit) {
  // Destroying a log waits for the disk, which calls must not do.
  MutexLock lock(mu_);
  audit_.swap(audit);
}

absl::Status Gatekeeper::Enter(const Caller& caller, const MethodRule& rule) {
  MSITD_RETURN_IF_ERROR(limits_.Enter(caller.name, RateLimits::Clock::now()));
  if (caller.role != Role::kNone) return absl::OkStatus();
  return CheckRole(caller, rule.role, rule.method);
}

absl::Status Gatekeeper::CheckTarget(const Caller& caller,
                                     const MethodRule& rule,
                                     std::string_view target) {
  MSITD_RETURN_IF_ERROR(CheckRole(caller, rule.role, rule.method));
  if (rule.of == MethodRule::Of::kNobody || caller.role == Role::kAdmin) {
    return absl::OkStatus();
  }
  const bool is_run = rule.of == MethodRule::Of::kRun;
  const absl::StatusOr<std::string> owner =
      is_run ? parts_.owner_of_run(target) : parts_.owner_of_comparison(target);
  if (absl::IsNotFound(owner.status())) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(owner.status());
  return CheckOwner(
      caller, *owner,
      fmt::format("{} '{}'", is_run ? "run" : "comparison", target));
}

void Gatekeeper::Note(const Caller& caller, std::string_view peer,
                      const MethodRule& rule, std::string_view target,
                      const absl::Status& status) {
  const bool is_refused = absl::IsPermissionDenied(status);
  if (rule.audit == MethodRule::Audit::kNever && !is_refused) return;
  target = target.substr(0, kAuditTargetBytesMax);
  {
    MutexLock lock(mu_);
    if (audit_ != nullptr) {
      audit_->Add({std::chrono::system_clock::now(), caller, std::string(peer),
                   rule.method, std::string(target), status});
      return;
    }
  }
  if (is_refused) {
    if (const auto suppressed = log_limiter_.Admit()) {
      log::Get("access")->warn(
          "refuse caller={} peer={} method={} target='{}' reason={} "
          "suppressed={}",
          caller.name, peer, rule.method, target, Reason(status), *suppressed);
    }
  }
}

}  // namespace msitd::access
