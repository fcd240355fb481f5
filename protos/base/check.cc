// SPDX-License-Identifier: Apache-2.0
#include "protos/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace msitd {

void CheckFailed(const char* file, int line, const char* condition) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace msitd
