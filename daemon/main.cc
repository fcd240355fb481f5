// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <malloc.h>

#include <cstdio>
#include <utility>

#include "daemon/config/command_line.h"
#include "daemon/server/daemon.h"
#include "daemon/server/personal.h"
#include "protos/status/status.h"

namespace {

// gRPC allocates memory for the bytes of every message, up to 4 MiB. If freed
// memory were returned to the kernel, each of its pages would have to be
// cleared and mapped again for the next message. docs/operations.md states how
// much memory is kept instead.
void KeepFreedMemory() {
  constexpr int kArenasMax = 8;
  constexpr int kKeptBytesMax = 32 << 20;  // At the end of each arena.
  constexpr int kMappedBytesMin = 8 << 20;
  ::mallopt(M_ARENA_MAX, kArenasMax);
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytesMax);
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytesMin);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kExitUsage = 2;
  KeepFreedMemory();
  const auto command = msitd::config::ParseCommandLine(argc, argv);
  if (!command.ok()) {
    fmt::print(stderr, "msitd: {}\n", msitd::Message(command.status()));
    return kExitUsage;
  }
  if (command->text.has_value()) {
    fmt::print("{}", *command->text);
    return 0;
  }
  if (command->personal.has_value()) {
    return msitd::server::StartPersonal(command->config, *command->personal);
  }
  const auto reread = [argc,
                       argv]() -> absl::StatusOr<msitd::config::DaemonConfig> {
    auto again = msitd::config::ParseCommandLine(argc, argv);
    if (!again.ok()) return again.status();
    return std::move(again->config);
  };
  return msitd::server::RunDaemon(command->config, command->recovers, reread);
}
