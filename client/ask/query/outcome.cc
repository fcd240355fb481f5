// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/outcome.h"

#include <fmt/format.h>

#include "client/ask/text/text.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "protos/base/error_reason.h"

namespace msitd::ask {
namespace {

google::rpc::ErrorInfo InfoOf(const grpc::Status& status) {
  google::rpc::ErrorInfo info;
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return info;
  for (const auto& any : details.details()) {
    if (any.UnpackTo(&info)) break;
  }
  return info;
}

}  // namespace

Outcome UsageError(std::string_view message) {
  return {kExitUsage, Printable(message)};
}

Outcome LocalError(std::string_view message) {
  return {kExitLocal, Printable(message)};
}

Outcome Interrupted() { return {kExitInterrupted, "interrupted"}; }

Outcome DaemonError(const grpc::Status& status) {
  const google::rpc::ErrorInfo info = InfoOf(status);
  Outcome outcome =
      DaemonError(status.error_code(), info.reason(), status.error_message());
  if (info.reason() == ErrorReasonName(ErrorReason::kRunNotFound)) {
    const auto run = info.metadata().find("run");
    if (run != info.metadata().end()) outcome.missing_run = run->second;
  }
  return outcome;
}

Outcome DaemonError(grpc::StatusCode code, std::string_view reason,
                    std::string_view message) {
  std::string line = CodeName(code);
  if (!reason.empty()) line += fmt::format(" ({})", reason);
  if (!message.empty()) line += fmt::format(": {}", message);
  return {ExitCodeOf(code), Printable(line), std::string(reason)};
}

}  // namespace msitd::ask
