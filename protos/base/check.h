// SPDX-License-Identifier: Apache-2.0
#pragma once

// MSITD_CHECK aborts the process if an invariant of our own code is violated.
// It is active in release builds. Never apply it to bytes from a client, a file
// or a socket: those are validated and cause a Status.

namespace msitd {

// Prints the failed condition to stderr and aborts. Thread-safe.
[[noreturn]] void CheckFailed(const char* file, int line,
                              const char* condition) noexcept;

}  // namespace msitd

#define MSITD_CHECK(condition)                       \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::msitd::CheckFailed(__FILE__, __LINE__, #condition))
