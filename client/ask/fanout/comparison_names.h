// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// Each daemon names its comparisons independently. The comparisons that several
// daemons create for one request are named `c-000001@a,b,c-000004@c`: c-000001
// on the nodes a and b, and c-000004 on c.
namespace msitd::ask {

struct NodeComparison {
  std::string name;  // The name on its daemon.
  std::string node;

  friend bool operator==(const NodeComparison&,
                         const NodeComparison&) = default;
};

std::string JoinNames(const std::vector<NodeComparison>& comparisons);

// The inverse of JoinNames. Returns INVALID_ARGUMENT for any other text, such
// as a name without nodes.
absl::StatusOr<std::vector<NodeComparison>> SplitNames(std::string_view text);

}  // namespace msitd::ask
