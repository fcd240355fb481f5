// SPDX-License-Identifier: Apache-2.0
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <iostream>

#include "storage/inspect/inspect_command.h"

int main(int argc, char** argv) {
  // Standard output is reserved for the requested data.
  spdlog::set_default_logger(spdlog::stderr_logger_st("msitd-inspect"));
  return static_cast<int>(
      msitd::storage::RunInspect(argc, argv, std::cout, std::cerr));
}
