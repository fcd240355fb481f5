// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "protos/os/thread.h"

namespace msitd {

// Calls `work` with each number below `count`, on the calling thread and on as
// many other threads as the system provides, up to `threads_max` threads in
// total. Returns when all calls have returned. Intended for work that waits for
// I/O or other processes.
template <typename Work>
void ForEachAtOnce(size_t count, size_t threads_max, const Work& work) {
  // Relaxed, because it only distributes numbers; joining the threads publishes
  // all results.
  std::atomic<size_t> next{0};
  const auto take = [&] {
    while (true) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      work(i);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(count, threads_max); ++i) {
    std::thread thread = StartSpareThread("at-once", take);
    if (!thread.joinable()) break;
    threads.push_back(std::move(thread));
  }
  take();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace msitd
