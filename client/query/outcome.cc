// SPDX-License-Identifier: Apache-2.0
#include "client/query/outcome.h"

#include <fmt/format.h>

#include "client/text/text.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace msitd::ctl {
namespace {

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return {};
  for (const auto& any : details.details()) {
    google::rpc::ErrorInfo info;
    if (any.UnpackTo(&info)) return info.reason();
  }
  return {};
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
  return DaemonError(status.error_code(), ReasonOf(status),
                     status.error_message());
}

Outcome DaemonError(grpc::StatusCode code, std::string_view reason,
                    std::string_view message) {
  std::string line = CodeName(code);
  if (!reason.empty()) line += fmt::format(" ({})", reason);
  if (!message.empty()) line += fmt::format(": {}", message);
  return {ExitCodeOf(code), Printable(line)};
}

}  // namespace msitd::ctl
