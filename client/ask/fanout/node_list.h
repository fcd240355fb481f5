// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// Which daemons a command asks. All errors are INVALID_ARGUMENT but those of
// files and names of hosts.
namespace msitd::ask {

// More are refused: each has a thread and a channel.
inline constexpr size_t kNodesMax = 1024;

// The port of nodes that are named without one, as in `slurm:`.
inline constexpr int kNodePort = 7741;

struct NodeAddress {
  std::string endpoint;  // As ParseEndpoint takes it.
  std::string host;      // Of a name with many addresses; otherwise empty.

  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

// Reads a list separated by commas of endpoints, `dns:///HOST:PORT` for all
// addresses of a host, and `slurm:` or `slurm:PORT` for the nodes of the job.
// Each node is returned once, in the order of the list. `,` and `@` are refused
// in endpoints: names of comparisons use them.
absl::StatusOr<std::vector<NodeAddress>> ParseNodes(std::string_view list);

// The same of a file with a list in each line. Blank lines do not count, nor
// what follows `#`.
absl::StatusOr<std::vector<NodeAddress>> ReadNodes(const std::string& path);

// Expands `node[01-03,7],gpu5` to the names of hosts, as Slurm writes its
// lists. Several brackets in one name multiply.
absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view list);

}  // namespace msitd::ask
