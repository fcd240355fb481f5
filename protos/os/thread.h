// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <cstddef>
#include <system_error>
#include <thread>
#include <utility>

namespace msitd {

// Name of a thread in tools such as top, perf and gdb: a literal of at most 15
// bytes, which is the limit of Linux.
class ThreadName {
 public:
  template <size_t kBytes>
  consteval ThreadName(const char (&literal)[kBytes]) : text_(literal) {
    static_assert(kBytes <= 16, "the name is too long");
  }
  const char* c_str() const { return text_; }

 private:
  const char* text_;
};

// Returns a thread that calls `work`. Throws std::system_error if the system
// cannot create a thread.
template <typename Work>
std::thread StartThread(ThreadName name, Work work) {
  return std::thread([name, work = std::move(work)]() mutable {
    (void)::pthread_setname_np(::pthread_self(), name.c_str());
    work();
  });
}

// As StartThread, but returns a thread that is not joinable if the system
// cannot create one. Intended for work that the caller can also do itself
// later.
template <typename Work>
std::thread StartSpareThread(ThreadName name, Work work) {
  try {
    return StartThread(name, std::move(work));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace msitd
