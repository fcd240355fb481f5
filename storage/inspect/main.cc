// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "storage/inspect/inspect_command.h"

int main(int argc, char** argv) {
  return static_cast<int>(
      msitd::storage::RunInspect(argc, argv, std::cout, std::cerr));
}
