// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

// Describes which index of the golden tensor each index of the target has the
// values of.
namespace msitd::compare::explain {

struct IndexMapText {
  std::string text;
  // The number of indices, or of blocks of indices, that must be named.
  size_t length = 0;
};

// Returns a description of a map that is not the identity. `dim` is the
// dimension that it applies to, and `block` the number of indices that each
// entry stands for.
IndexMapText DescribeIndexMap(const std::vector<size_t>& map, size_t dim,
                              size_t block);

}  // namespace msitd::compare::explain
