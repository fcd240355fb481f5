// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/request_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/compare/request/row_place.h"
#include "daemon/compare/view/gather.h"
#include "daemon/compare/view/tensor_view.h"
#include "daemon/compare/view/view_plan.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Maximum number of ranges that PositionsText lists.
constexpr size_t kListedRangesMax = 4;

std::string ShapeOfLeaf(const ViewLeaf& leaf) {
  return fmt::format("[{}]", fmt::join(leaf.shape, ","));
}

std::string BatchText(const BatchShape& batch) {
  return batch.column_count == 0
             ? fmt::format("[{}]", batch.row_count)
             : fmt::format("[{},{}]", batch.row_count, batch.column_count);
}

// Returns the ranges in ascending order, with neighbors merged.
std::vector<RowRange> Merged(std::vector<RowRange> ranges) {
  std::vector<RowRange> out;
  for (const RowRange& range : ranges) {
    if (range.size() == 0) continue;
    if (!out.empty() && out.back().end == range.first) {
      out.back().end = range.end;
    } else {
      out.push_back(range);
    }
  }
  return out;
}

}  // namespace

void RequestTensor::Add(const LogicalTensor& tensor, const PieceRange& range) {
  Source source{&tensor, range, {}};
  const std::optional<RowPlace> place =
      FindRows(tensor.shape, range.piece.batch);
  // Without a place, the view has a problem, which must not be hidden by a lack
  // of positions.
  source.positions = range.positions;
  is_last_ = is_last_ && place.has_value() && place->is_last;
  may_have_keys_ = may_have_keys_ && place.has_value() &&
                   place->columns == size_t{2} && tensor.shape.size() == 4;
  if (place.has_value()) {
    const RowRange own = PositionsIn(*place, range.piece);
    source.positions.first = std::max(range.positions.first, own.first);
    source.positions.end = std::max(source.positions.first,
                                    std::min(range.positions.end, own.end));
  }
  sources_.push_back(std::move(source));
}

std::vector<RowRange> RequestTensor::Positions() const {
  std::vector<RowRange> out;
  for (const Source& source : sources_) out.push_back(source.positions);
  return Merged(std::move(out));
}

LogicalTensor RequestTensor::View(
    const std::vector<RowRange>& positions) const {
  // The ranges to read, and the number of the tensor that each is read from.
  std::vector<std::pair<size_t, PieceRange>> cuts;
  std::vector<LogicalTensor> leaves;
  std::map<const LogicalTensor*, size_t> leaf_of;
  for (const Source& source : sources_) {
    for (const RowRange& range :
         CommonPositions({source.positions}, positions)) {
      const auto [leaf, is_new] =
          leaf_of.try_emplace(source.tensor, leaves.size());
      if (is_new) leaves.push_back(*source.tensor);
      cuts.emplace_back(leaf->second, PieceRange{source.range.piece, range});
    }
  }
  if (leaves.empty()) leaves.push_back(*sources_.front().tensor);
  const auto make_plan =
      [&](std::span<const ViewLeaf> shapes) -> absl::StatusOr<ViewPlan> {
    std::vector<Gather> parts;
    for (const auto& [leaf, range] : cuts) {
      const std::optional<RowPlace> place =
          FindRows(shapes[leaf].shape, range.piece.batch);
      if (!place.has_value()) {
        return MakeStatus(absl::StatusCode::kFailedPrecondition,
                          "no dimension of {} has the rows of a batch of {}",
                          ShapeOfLeaf(shapes[leaf]),
                          BatchText(range.piece.batch));
      }
      const RowRange own = PositionsIn(*place, range.piece);
      if (range.positions.first < own.first || range.positions.end > own.end) {
        return MakeStatus(absl::StatusCode::kFailedPrecondition,
                          "the shards of the tensor have other shapes");
      }
      parts.push_back(CutPositions(
          Gather::OfLeaf(static_cast<uint32_t>(leaf), shapes[leaf].shape),
          *place, range.piece, range.positions));
      std::vector<int64_t> first = parts.front().shape();
      std::vector<int64_t> other = parts.back().shape();
      first.front() = other.front() = 0;
      if (first != other || shapes[leaf].dtype != shapes.front().dtype) {
        return MakeStatus(
            absl::StatusCode::kFailedPrecondition,
            "its rows have other shapes or types at another token");
      }
    }
    if (parts.empty()) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "it has none of the positions");
    }
    ViewPlan plan;
    plan.terms = {parts.size() == 1 ? parts.front() : Gather::Concat(parts, 0)};
    plan.term_dtypes = {shapes.front().dtype};
    plan.shape = plan.terms.front().shape();
    plan.dtype = shapes.front().dtype;
    return plan;
  };
  return SeenAsRequest(PositionsText(positions), std::move(leaves), make_plan);
}

LogicalTensor RequestTensor::Refuse(const std::string& problem) const {
  std::vector<RowRange> wanted;
  for (const Source& source : sources_) {
    wanted.push_back(source.range.positions);
  }
  return SeenAsRequest(
      PositionsText(Merged(std::move(wanted))), {*sources_.front().tensor},
      [&](std::span<const ViewLeaf>) -> absl::StatusOr<ViewPlan> {
        return MakeStatus(absl::StatusCode::kFailedPrecondition, "{}", problem);
      });
}

std::vector<RowRange> CommonPositions(const std::vector<RowRange>& a,
                                      const std::vector<RowRange>& b) {
  std::vector<RowRange> out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const RowRange common{std::max(a[i].first, b[j].first),
                          std::min(a[i].end, b[j].end)};
    if (common.first < common.end) out.push_back(common);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return out;
}

uint64_t CountPositions(const std::vector<RowRange>& positions) {
  uint64_t out = 0;
  for (const RowRange& range : positions) {
    out += static_cast<uint64_t>(range.size());
  }
  return out;
}

std::string PositionsText(const std::vector<RowRange>& positions) {
  std::vector<std::string> parts;
  for (const RowRange& range : positions) {
    if (parts.size() == kListedRangesMax) {
      parts.push_back("...");
      break;
    }
    parts.push_back(range.size() == 1
                        ? fmt::format("{}", range.first)
                        : fmt::format("{}-{}", range.first, range.end - 1));
  }
  return fmt::format("{} {}",
                     CountPositions(positions) == 1 ? "position" : "positions",
                     fmt::join(parts, ", "));
}

}  // namespace msitd::compare
