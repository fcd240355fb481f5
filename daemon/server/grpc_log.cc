// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>

#include "daemon/log/log.h"

namespace msitd::server {
namespace {

std::string_view BaseName(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string_view WithoutNewline(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

void Forward(gpr_log_func_args* args) {
  // Never destroyed, because threads of gRPC may outlive main().
  static auto& logger = *new auto(log::Get("grpc"));
  static auto& limiter = *new log::Limiter;
  const std::string_view message = WithoutNewline(args->message);
  if (args->severity != GPR_LOG_SEVERITY_ERROR) {
    // Logged only if GRPC_VERBOSITY is set.
    logger->info("{}:{} {}", BaseName(args->file), args->line, message);
    return;
  }
  if (const auto suppressed = limiter.Admit()) {
    logger->warn("{}:{} {} suppressed={}", BaseName(args->file), args->line,
                 message, *suppressed);
  }
}

}  // namespace

void ForwardGrpcLog() { gpr_set_log_function(&Forward); }

}  // namespace msitd::server
