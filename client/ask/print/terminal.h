// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace msitd::ask {

// The terminals of the standard descriptors.
struct Terminal {
  bool stdin_is_terminal = false;
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  // Width in columns. 0 if the descriptor is not a terminal or the width is not
  // known.
  size_t stdout_width = 0;
  size_t stderr_width = 0;

  static Terminal Detect();
};

}  // namespace msitd::ask
