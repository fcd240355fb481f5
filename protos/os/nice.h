// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <cerrno>

namespace msitd {

// Raises the niceness of the calling thread, and of threads that it starts
// later, to `nice`. Never lowers it. Returns 0 or an error number.
inline int RaiseNice(int nice) {
  if (::getpriority(PRIO_PROCESS, 0) >= nice) return 0;
  return ::setpriority(PRIO_PROCESS, 0, nice) == 0 ? 0 : errno;
}

}  // namespace msitd
