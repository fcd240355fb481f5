// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "daemon/config/command_line.h"
#include "daemon/server/daemon.h"
#include "protos/status/status.h"

int main(int argc, char** argv) {
  constexpr int kExitUsage = 2;
  const auto command = msitd::config::ParseCommandLine(argc, argv);
  if (!command.ok()) {
    fmt::print(stderr, "msitd: {}\n", msitd::Message(command.status()));
    return kExitUsage;
  }
  if (command->text.has_value()) {
    fmt::print("{}", *command->text);
    return 0;
  }
  return msitd::server::RunDaemon(command->config);
}
