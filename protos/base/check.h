// SPDX-License-Identifier: Apache-2.0
#pragma once

// MSITD_CHECK ends the process when an invariant of our own code does not
// hold. It stays on in release builds. Never apply it to bytes that come from
// a client, a file or a socket: those are validated and give a Status.

namespace msitd {

// Prints the failed condition to stderr and aborts. Thread-safe.
[[noreturn]] void CheckFailed(const char* file, int line,
                              const char* condition) noexcept;

}  // namespace msitd

#define MSITD_CHECK(condition)                       \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::msitd::CheckFailed(__FILE__, __LINE__, #condition))
