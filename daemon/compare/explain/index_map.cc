// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/index_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace msitd::compare::explain {
namespace {

constexpr size_t kShownMax = 16;

// Returns whether blocks of `size` indices move as a whole.
bool MovesBlocks(const std::vector<size_t>& map, size_t size) {
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] % size != i % size) return false;
    if (i % size != 0 && map[i] != map[i - 1] + 1) return false;
  }
  return true;
}

// Returns the number of rows of a table whose indices are read column by column
// in the target; nullopt for any other map.
std::optional<size_t> TransposedRows(const std::vector<size_t>& map) {
  const size_t count = map.size();
  for (size_t rows = 2; rows <= count / 2; ++rows) {
    if (count % rows != 0) continue;
    const size_t columns = count / rows;
    bool is_transposed = true;
    for (size_t i = 0; i < count && is_transposed; ++i) {
      is_transposed = map[i] == i % rows * columns + i / rows;
    }
    if (is_transposed) return rows;
  }
  return std::nullopt;
}

bool IsOrder(const std::vector<size_t>& map) {
  std::vector<bool> seen(map.size());
  for (const size_t i : map) seen[i] = true;
  return std::all_of(seen.begin(), seen.end(), [](bool is) { return is; });
}

}  // namespace

IndexMapText DescribeIndexMap(const std::vector<size_t>& map, size_t dim,
                              size_t block) {
  size_t size = map.size();
  while (size > 1 && (map.size() % size != 0 || !MovesBlocks(map, size)))
    --size;
  std::vector<size_t> blocks;
  for (size_t i = 0; i < map.size(); i += size) blocks.push_back(map[i] / size);
  const size_t width = size * block;
  std::vector<size_t> moved;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] != i) moved.push_back(i);
  }
  const std::string things =
      width == 1
          ? fmt::format("the indices of dimension {}", dim)
          : fmt::format("the blocks of {} indices of dimension {}", width, dim);
  if (IsOrder(blocks)) {
    if (moved.size() == 2) {
      return {fmt::format("{} {} and {} changed places", things, moved[0],
                          moved[1]),
              2};
    }
    if (const auto rows = TransposedRows(blocks)) {
      return {fmt::format("{} in the order of columns: as {} x {}, transposed",
                          things, *rows, blocks.size() / *rows),
              2};
    }
  }
  const size_t shown = std::min(blocks.size(), kShownMax);
  if (moved.size() <= 2) {
    std::string out;
    for (const size_t i : moved) {
      out += fmt::format("{}{} has the values of {}", out.empty() ? "" : ", ",
                         i, blocks[i]);
    }
    return {fmt::format("{}: {}", things, out), 2 * moved.size()};
  }
  return {
      fmt::format(
          "{} in another order: {}{}", things,
          fmt::join(blocks.begin(),
                    blocks.begin() + static_cast<std::ptrdiff_t>(shown), ","),
          shown < blocks.size() ? ",..." : ""),
      moved.size()};
}

}  // namespace msitd::compare::explain
