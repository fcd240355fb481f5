// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msitd::server {

// How many descriptors each part of the daemon may have, so that whoever
// connects never takes those of the store.
struct FileBudget {
  size_t tcp_connections_max = 0;
  size_t unix_connections_max = 0;
  size_t sessions_max = 0;  // Of ranks that share memory.

  // Shares out `files_max` where at most `streams_max` ranks want a session.
  static FileBudget Of(uint64_t files_max, size_t streams_max);
};

// Raises the limit of descriptors as far as this process may; returns it.
uint64_t RaiseFileLimit();

// Returns the limit of descriptors in force.
uint64_t FileLimit();

}  // namespace msitd::server
