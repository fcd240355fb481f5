// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/audit_log.h"
#include "daemon/access/caller.h"
#include "daemon/access/method_rules.h"
#include "daemon/access/rate_limits.h"
#include "daemon/log/log.h"
#include "protos/status/mutex.h"

namespace msitd::access {

// Decides whether calls are allowed and records them in the audit log.
// Thread-safe.
class Gatekeeper {
 public:
  struct Parts {
    // Returns the owner of a run or of a comparison by its name. If it returns
    // NOT_FOUND, the call proceeds and reports the error itself.
    std::function<absl::StatusOr<std::string>(std::string_view)> owner_of_run;
    std::function<absl::StatusOr<std::string>(std::string_view)>
        owner_of_comparison;
    int64_t calls_per_s = 0;  // Limit per caller; 0: unlimited.
    // If null, refusals are written to the daemon's log instead.
    std::unique_ptr<AuditLog> audit = nullptr;
  };

  explicit Gatekeeper(Parts parts)
      : parts_(std::move(parts)),
        limits_(parts_.calls_per_s),
        audit_(std::move(parts_.audit)) {}

  // Replace the values of Parts, from the next call on.
  void SetCallsPerSecond(int64_t calls_per_s) { limits_.SetLimit(calls_per_s); }
  // SetAudit returns after the lines of the previous log have been written.
  void SetAudit(std::unique_ptr<AuditLog> audit);

  // Admits a call whose request has not been read yet. Callers without a role
  // are refused here, so that no memory is spent on the requests of strangers.
  //
  // Errors: PERMISSION_DENIED (ROLE_REFUSED); RESOURCE_EXHAUSTED
  // (REQUESTS_EXHAUSTED).
  absl::Status Enter(const Caller& caller, const MethodRule& rule);

  // Checks the caller's role and its ownership of `target`, which the call is
  // about to change. Called for every call after its request was read and
  // before it takes any action. The role is checked only here so that the audit
  // log contains the targets of refused calls. May read the store.
  //
  // Errors: PERMISSION_DENIED (ROLE_REFUSED, NOT_OWNER); those of the store.
  absl::Status CheckTarget(const Caller& caller, const MethodRule& rule,
                           std::string_view target);

  // Records a call that has ended or was refused. Does not block.
  void Note(const Caller& caller, std::string_view peer, const MethodRule& rule,
            std::string_view target, const absl::Status& status);

 private:
  Parts parts_;  // Without `audit`, which may be replaced.
  RateLimits limits_;
  Mutex mu_;
  std::unique_ptr<AuditLog> audit_ ABSL_GUARDED_BY(mu_);
  // Any client can cause refusals in a loop.
  log::Limiter log_limiter_;
};

}  // namespace msitd::access
