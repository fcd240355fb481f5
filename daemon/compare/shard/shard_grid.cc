// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/shard_grid.h"

#include <numeric>

#include "protos/base/check.h"

namespace msitd::compare {

DType SumDType(DType term) {
  if (term == DType::kComplex32) return DType::kComplex64;
  if (IsComplex(term) || term == DType::kUint64) return term;
  if (!IsFloatingPoint(term)) return DType::kInt64;
  return term == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

std::vector<ShardStretch> StretchesOf(const ShardGrid::Axis& axis,
                                      std::span<const int64_t> lengths) {
  MSITD_CHECK(lengths.size() == axis.count);
  std::vector<int64_t> sections = axis.sections;
  if (sections.empty()) sections = {1};
  const int64_t total =
      std::accumulate(sections.begin(), sections.end(), int64_t{0});
  std::vector<ShardStretch> out;
  int64_t before = 0;
  for (size_t section = 0; section < sections.size(); ++section) {
    for (size_t i = 0; i < axis.count; ++i) {
      const size_t shard =
          axis.is_zigzag && section == 1 ? axis.count - 1 - i : i;
      const int64_t unit = lengths[shard] / total;
      // Without sections, the unit of a shard is its length.
      out.push_back({shard, before * unit, sections[section] * unit});
    }
    before += sections[section];
  }
  return out;
}

}  // namespace msitd::compare
