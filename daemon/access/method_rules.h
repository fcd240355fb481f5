// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "daemon/access/caller.h"

namespace msitd::access {

// Access rule of one method.
struct MethodRule {
  // Kind of object that the method changes, which determines its owner.
  enum class Of {
    kNobody,
    kRun,         // The run in the request: its owner or an admin may call.
    kComparison,  // The comparison in the request, likewise.
  };
  // When calls are written to the audit log. Refused calls are always written.
  enum class Audit { kNever, kRead, kChange };

  std::string_view method;  // Such as "RunService.DeleteRun".
  Role role;
  Of of;
  Audit audit;
};

// Returns the rule of a method. The method must have one.
const MethodRule& RuleOf(std::string_view service, std::string_view method);

}  // namespace msitd::access
