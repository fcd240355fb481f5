// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

// Each daemon names its comparisons by itself. What several make of one request
// is `c-000001@a,b,c-000004@c`: on the nodes a and b it is c-000001, and
// c-000004 on c.
namespace msitd::ask {

struct NodeComparison {
  std::string name;  // As its daemon calls it.
  std::string node;

  friend bool operator==(const NodeComparison&,
                         const NodeComparison&) = default;
};

std::string JoinNames(const std::vector<NodeComparison>& comparisons);

// The inverse. INVALID_ARGUMENT for anything else, such as a bare name.
absl::StatusOr<std::vector<NodeComparison>> SplitNames(std::string_view text);

}  // namespace msitd::ask
