// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/audit_log.h"
#include "daemon/access/caller.h"
#include "daemon/access/method_rules.h"
#include "daemon/access/rate_limits.h"
#include "daemon/log/log.h"

namespace msitd::access {

// Lets calls in, or not, and writes down who did what. Thread-safe.
class Gatekeeper {
 public:
  struct Parts {
    // Returns the owner of a run or of a comparison by its name. NOT_FOUND lets
    // the call go on, and find that out itself.
    std::function<absl::StatusOr<std::string>(std::string_view)> owner_of_run;
    std::function<absl::StatusOr<std::string>(std::string_view)>
        owner_of_comparison;
    int64_t calls_per_s = 0;  // Of each caller; 0 is no bound.
    // Nothing: refusals go to the log.
    std::unique_ptr<AuditLog> audit = nullptr;
  };

  explicit Gatekeeper(Parts parts)
      : parts_(std::move(parts)), limits_(parts_.calls_per_s) {}

  // A call begins; its request has not been read. A caller without any role is
  // refused here, so that no memory is spent on requests of strangers.
  //
  // Errors: PERMISSION_DENIED (ROLE_REFUSED); RESOURCE_EXHAUSTED
  // (REQUESTS_EXHAUSTED).
  absl::Status Enter(const Caller& caller, const MethodRule& rule);

  // The request has been read, and names what the call changes. Checks the role
  // only now, so that the audit log has the target of a refused call. Every
  // call passes here before it does anything. May read the store.
  //
  // Errors: PERMISSION_DENIED (ROLE_REFUSED, NOT_OWNER); those of the store.
  absl::Status CheckTarget(const Caller& caller, const MethodRule& rule,
                           std::string_view target);

  // It has ended, or was refused. Does not block.
  void Note(const Caller& caller, std::string_view peer, const MethodRule& rule,
            std::string_view target, const absl::Status& status);

 private:
  Parts parts_;
  RateLimits limits_;
  // Anybody can be refused in a loop.
  log::Limiter log_limiter_;
};

}  // namespace msitd::access
