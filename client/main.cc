// SPDX-License-Identifier: Apache-2.0
#include <grpc/support/log.h>

#include <cstdlib>

#include "client/msit/command/command_line.h"
#include "client/msit/probe/probe_command.h"
#include "client/msitctl/command_line.h"

int main(int argc, char** argv) {
  // gRPC logs to stderr what failed calls report as well. GRPC_VERBOSITY
  // restores it.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }
  if (msitd::msit_command::IsMsit(argv[0]))
    return msitd::msit_command::Run(argc, argv);
  if (msitd::msit_command::IsMsprobe(argv[0]))
    return msitd::msit_command::RunMsprobe(argc, argv);
  return msitd::msitctl::CommandLine().Run(argc, argv);
}
