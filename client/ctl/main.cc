// SPDX-License-Identifier: Apache-2.0
#include <grpc/support/log.h>

#include <cstdlib>

#include "client/ctl/command_line.h"
#include "client/msit/command/command_line.h"

int main(int argc, char** argv) {
  // gRPC logs to stderr what failed calls report as well. GRPC_VERBOSITY
  // restores it.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }
  if (msitd::msit::IsMsit(argv[0])) return msitd::msit::Run(argc, argv);
  return msitd::ctl::CommandLine().Run(argc, argv);
}
