// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msitd::client {

// Knows whether this process was forked from the one that made the guard. In
// such a child the threads of the client do not exist, and its locks may be
// held for ever. Thread-safe; costs one load.
class ForkGuard {
 public:
  ForkGuard();
  bool in_child() const;

 private:
  uint64_t generation_;
};

}  // namespace msitd::client
