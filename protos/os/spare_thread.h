// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace msitd {

// Returns a thread that calls `work`, or one that is not joinable if the system
// has none to spare: for work that its owner can do as well, only later.
template <typename Work>
std::thread StartSpareThread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace msitd
