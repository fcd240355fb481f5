// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msitd::libmsit {

// Detects whether this process is a forked child of the process that created
// the guard. In such a child the threads of the client do not exist, and its
// locks may be held forever. Thread-safe; costs one load.
class ForkGuard {
 public:
  ForkGuard();
  bool in_child() const;

 private:
  uint64_t generation_;
};

}  // namespace msitd::libmsit
