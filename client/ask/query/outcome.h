// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include <string>
#include <string_view>

#include "client/ask/query/exit_code.h"

namespace msitd::ask {

// How a command, or a step of one, ended: the exit code of the process, and one
// line for stderr unless it is empty.
struct [[nodiscard]] Outcome {
  int exit_code = kExitOk;
  std::string error;
  // The name of the ErrorReason from the daemon; empty if there is none.
  std::string reason = {};
  // The name of the run if the error is that the daemon does not have it.
  std::string missing_run = {};

  bool ok() const { return exit_code == kExitOk; }
};

Outcome UsageError(std::string_view message);
Outcome LocalError(std::string_view message);
Outcome Interrupted();

// Decodes an error of the daemon: "NOT_FOUND (RUN_NOT_FOUND): no run ...". The
// reason is that of the ErrorInfo in the details. An answer without one, such
// as that of a proxy, has no reason.
Outcome DaemonError(const grpc::Status& status);

// The same for an error in a message. `reason` may be empty.
Outcome DaemonError(grpc::StatusCode code, std::string_view reason,
                    std::string_view message);

}  // namespace msitd::ask

#define MSITCTL_RETURN_IF_FAILED(expression)                  \
  do {                                                        \
    if (::msitd::ask::Outcome msitctl_outcome = (expression); \
        !msitctl_outcome.ok()) {                              \
      return msitctl_outcome;                                 \
    }                                                         \
  } while (false)

// For expressions that fail only if the command line is invalid.
#define MSITCTL_ASSIGN_OR_USAGE(target, expression)                          \
  MSITCTL_ASSIGN_OR_USAGE_(MSITCTL_CONCAT(msitctl_value_, __LINE__), target, \
                           expression)
#define MSITCTL_CONCAT_(a, b) a##b
#define MSITCTL_CONCAT(a, b) MSITCTL_CONCAT_(a, b)
#define MSITCTL_ASSIGN_OR_USAGE_(variable, target, expression)            \
  auto variable = (expression);                                           \
  if (!variable.ok()) {                                                   \
    return ::msitd::ask::UsageError(::msitd::Message(variable.status())); \
  }                                                                       \
  target = *std::move(variable)
