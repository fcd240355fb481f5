// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace msitd::ask {

// What the standard descriptors are attached to.
struct Terminal {
  bool stdin_is_terminal = false;
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  // Width in columns; 0 if the descriptor is no terminal or does not tell.
  size_t stdout_width = 0;
  size_t stderr_width = 0;

  static Terminal Detect();
};

}  // namespace msitd::ask
