// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace msitd::libmsit {
namespace {

// Number of forks between the first process and this one. Relaxed, because it
// changes only in a child that has no second thread yet.
std::atomic<uint64_t> g_generation{0};

void OnForkInChild() { g_generation.fetch_add(1, std::memory_order_relaxed); }

uint64_t CurrentGeneration() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, &OnForkInChild);
  static_cast<void>(registered);
  return g_generation.load(std::memory_order_relaxed);
}

}  // namespace

ForkGuard::ForkGuard() : generation_(CurrentGeneration()) {}

bool ForkGuard::in_child() const {
  return generation_ != g_generation.load(std::memory_order_relaxed);
}

}  // namespace msitd::libmsit
