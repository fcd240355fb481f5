// SPDX-License-Identifier: Apache-2.0
#include <grpc/support/log.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "client/libmsit/grpc/grpc_transport.h"
#include "client/libmsit/grpc/grpc_transport_abi.h"

namespace {

// The status of the client reports what happened to a connection, so other log
// lines are suppressed. A message that gRPC logs before it aborts the process
// would otherwise be lost.
void LogOnlyTheEnd(gpr_log_func_args* line) {
  constexpr std::string_view kEnd = "assertion failed";
  if (!std::string_view(line->message).starts_with(kEnd)) return;
  std::fprintf(stderr, "%s:%d: %s\n", line->file, line->line, line->message);
}

bool IsLogWanted() {
  const char* verbosity = std::getenv("GRPC_VERBOSITY");
  return verbosity != nullptr && *verbosity != '\0';
}

}  // namespace

extern "C" __attribute__((visibility("default"))) msitd::libmsit::Transport*
msit_grpc_transport_v9(const char* endpoint, bool is_grpc_ours) {
  if (is_grpc_ours && !IsLogWanted()) gpr_set_log_function(&LogOnlyTheEnd);
  try {
    return new msitd::libmsit::GrpcTransport(endpoint);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

static_assert(std::is_same_v<decltype(&msit_grpc_transport_v9),
                             msitd::libmsit::GrpcTransportMaker>);
