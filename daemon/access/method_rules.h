// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "daemon/access/caller.h"

namespace msitd::access {

// What a call of one method needs.
struct MethodRule {
  // Whose things it changes.
  enum class Of {
    kNobody,
    kRun,         // Of the run in its request: the owner, or an admin.
    kComparison,  // Of the comparison in its request, likewise.
  };
  // When the audit log has it. Refused calls are there always.
  enum class Audit { kNever, kRead, kChange };

  std::string_view method;  // "RunService.DeleteRun"
  Role role;
  Of of;
  Audit audit;
};

// Returns the rule of a method, which has to have one.
const MethodRule& RuleOf(std::string_view service, std::string_view method);

}  // namespace msitd::access
