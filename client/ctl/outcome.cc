// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/outcome.h"

#include <fmt/format.h>

#include "client/ctl/text.h"
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
  std::string line = CodeName(status.error_code());
  if (const std::string reason = ReasonOf(status); !reason.empty()) {
    line += fmt::format(" ({})", reason);
  }
  if (!status.error_message().empty()) {
    line += fmt::format(": {}", status.error_message());
  }
  return {ExitCodeOf(status.error_code()), Printable(line)};
}

}  // namespace msitd::ctl
