// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "protos/os/thread.h"
#include "protos/status/mutex.h"

namespace msitd::ask {

class Connection;

// Returns whether `connection` calls a single daemon.
bool IsOfOneDaemon(const Connection& connection);

// Runs two functions that call a daemon, which throw nothing. They run at the
// same time, so that they wait for one round trip instead of two, unless
// `connection` calls several daemons or the system cannot create a thread.
template <typename First, typename Second>
void Together(const Connection& connection, First first, Second second) {
  std::thread thread;
  if (IsOfOneDaemon(connection)) {
    thread = StartSpareThread("ask", [&first] { first(); });
  }
  if (!thread.joinable()) first();
  second();
  if (thread.joinable()) thread.join();
}

// Most calls that ForEachAtOnce makes at the same time.
inline constexpr size_t kAtOnceMax = 4;

// Calls `work`, which throws nothing, with 0 to `count` - 1, several at the
// same time as in Together. Ends early if it returns false. `done` is called
// after each, by one thread at a time.
template <typename Work, typename Done>
void ForEachAtOnce(const Connection& connection, size_t count, Work work,
                   Done done) {
  std::atomic<size_t> next{0};
  std::atomic<bool> is_over{false};
  Mutex mu;
  const auto run = [&] {
    // Each thread reads only what it has taken; join orders the results.
    for (size_t i = next.fetch_add(1, std::memory_order_relaxed);
         i < count && !is_over.load(std::memory_order_relaxed);
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      if (!work(i)) is_over.store(true, std::memory_order_relaxed);
      MutexLock lock(mu);
      done();
    }
  };
  std::vector<std::thread> threads;
  while (IsOfOneDaemon(connection) && threads.size() + 1 < kAtOnceMax &&
         threads.size() + 1 < count) {
    std::thread thread = StartSpareThread("ask", [&run] { run(); });
    if (!thread.joinable()) break;
    threads.push_back(std::move(thread));
  }
  run();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace msitd::ask
