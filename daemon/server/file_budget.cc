// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/file_budget.h"

#include <sys/resource.h>

#include <algorithm>

namespace msitd::server {
namespace {

// Descriptors of gRPC, of the log, of waiting threads, and of producers that
// have not sent their hello.
constexpr uint64_t kOwnFiles = 128;

// Segments and tables of the index, including some that are being created.
constexpr uint64_t kStoreFiles = 640;

// The socket, the memory and the process of each rank.
constexpr uint64_t kSessionFiles = 3;

constexpr uint64_t kConnectionsMin = 16;
constexpr uint64_t kUnixConnectionsMax = 512;
constexpr uint64_t kTcpConnectionsMax = 2048;

}  // namespace

FileBudget FileBudget::Of(uint64_t files_max, size_t streams_max) {
  const uint64_t kept = std::min(kStoreFiles, files_max * 5 / 8) + kOwnFiles;
  const uint64_t rest = files_max - std::min(files_max, kept);
  FileBudget out;
  out.sessions_max = std::clamp<uint64_t>(rest / 2 / kSessionFiles, 1,
                                          std::max<size_t>(streams_max, 1));
  out.unix_connections_max =
      std::clamp(rest / 8, kConnectionsMin, kUnixConnectionsMax);
  const uint64_t others =
      out.sessions_max * kSessionFiles + out.unix_connections_max;
  out.tcp_connections_max = std::clamp(rest - std::min(rest, others),
                                       kConnectionsMin, kTcpConnectionsMax);
  return out;
}

uint64_t FileLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

uint64_t RaiseFileLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return FileLimit();
}

}  // namespace msitd::server
