// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace msitd {

// Returns a thread that calls `work`, or a thread that is not joinable if the
// system has none to spare. For work that its owner can also do itself, later.
template <typename Work>
std::thread StartSpareThread(Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace msitd
