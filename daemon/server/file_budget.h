// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace msitd::server {

// The number of file descriptors that each part of the daemon may use, so that
// clients can never use up the descriptors of the store.
struct FileBudget {
  size_t tcp_connections_max = 0;
  size_t unix_connections_max = 0;
  size_t sessions_max = 0;  // Sessions of ranks that share memory.

  // Divides `files_max` if at most `streams_max` ranks need a session.
  static FileBudget Of(uint64_t files_max, size_t streams_max);
};

// Raises the limit of descriptors as far as the process is allowed to. Returns
// the new limit.
uint64_t RaiseFileLimit();

// Returns the current limit of descriptors.
uint64_t FileLimit();

}  // namespace msitd::server
