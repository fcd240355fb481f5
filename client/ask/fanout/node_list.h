// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// Determines the daemons that a command calls. All errors are INVALID_ARGUMENT,
// except those of files and of resolving host names.
namespace msitd::ask {

// A longer list is rejected, because each node has a thread and a channel.
inline constexpr size_t kNodesMax = 1024;

// The port of nodes that are named without one, as in `slurm:`.
inline constexpr int kNodePort = 7741;

struct NodeAddress {
  std::string endpoint;  // In the syntax of ParseEndpoint.
  std::string host;      // For a name with several addresses; otherwise empty.

  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

// Parses a list of endpoints separated by commas, with `dns:///HOST:PORT` for
// all addresses of a host, and `slurm:` or `slurm:PORT` for the nodes of the
// job. Returns each node once, in the order of the list. `,` and `@` are
// rejected in endpoints because names of comparisons use them.
absl::StatusOr<std::vector<NodeAddress>> ParseNodes(std::string_view list);

// The same for a file with a list in each line. Blank lines and text after `#`
// are ignored.
absl::StatusOr<std::vector<NodeAddress>> ReadNodes(const std::string& path);

// Expands `node[01-03,7],gpu5` to the names of hosts, as Slurm writes its
// lists. Several brackets in one name multiply.
absl::StatusOr<std::vector<std::string>> ExpandHosts(std::string_view list);

}  // namespace msitd::ask
