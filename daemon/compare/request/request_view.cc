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

std::string ShapeText(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

// Returns the recorded tensors that a tensor consists of.
std::span<const LogicalTensor> RecordedOf(const LogicalTensor& tensor) {
  if (tensor.view == nullptr) return {&tensor, 1};
  return tensor.view->leaves;
}

// Returns how to read a whole tensor whose first leaf has this number.
ViewPlan PlanOfTensor(const LogicalTensor& tensor, uint32_t first_leaf,
                      std::span<const ViewLeaf> leaves) {
  if (tensor.view == nullptr) {
    const ViewLeaf& leaf = leaves[first_leaf];
    ViewPlan out;
    out.terms = {Gather::OfLeaf(first_leaf, leaf.shape)};
    out.term_dtypes = {leaf.dtype};
    out.dtype = leaf.dtype;
    return out;
  }
  ViewPlan out = tensor.view->plan;
  for (Gather& term : out.terms) term = term.OfLeavesFrom(first_leaf);
  return out;
}

// Returns whether two plans can be concatenated along their first dimension.
bool AreAlike(const ViewPlan& a, const ViewPlan& b) {
  return std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1,
                    b.shape.end()) &&
         a.kind == b.kind && a.zero_term == b.zero_term &&
         a.term_dtypes == b.term_dtypes && a.dtype == b.dtype;
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
  Source source{&tensor, range};
  if (problem_.empty()) problem_ = ViewProblem(tensor);
  const bool has_order =
      tensor.view != nullptr && tensor.view->plan.any_order.has_value();
  if (has_order && problem_.empty()) {
    problem_ = "the rows of a request are in the order of their positions";
  }
  // Without a place, the view has a problem, which must not be hidden by a lack
  // of positions.
  source.positions = range.positions;
  if (problem_.empty())
    source.place = FindRows(tensor.shape, range.piece.batch);
  const std::optional<RowPlace>& place = source.place;
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
  if (!problem_.empty()) return Refuse(problem_);
  std::vector<Cut> cuts;
  std::vector<LogicalTensor> leaves;
  std::map<const LogicalTensor*, uint32_t> first_leaves;
  for (const Source& source : sources_) {
    for (const RowRange& range :
         CommonPositions({source.positions}, positions)) {
      const auto [first, is_new] = first_leaves.try_emplace(
          source.tensor, static_cast<uint32_t>(leaves.size()));
      if (is_new) {
        const std::span<const LogicalTensor> own = RecordedOf(*source.tensor);
        leaves.insert(leaves.end(), own.begin(), own.end());
      }
      cuts.push_back({&source, range, first->second});
    }
  }
  if (leaves.size() > kRequestLeavesMax) {
    return Refuse(fmt::format("it reads {} tensors, at most {}", leaves.size(),
                              kRequestLeavesMax));
  }
  const LogicalTensor& first = *sources_.front().tensor;
  if (leaves.empty()) leaves.push_back(RecordedOf(first).front());
  return SeenAsRequest(
      first, PositionsText(positions), std::move(leaves),
      [&](std::span<const ViewLeaf> shapes) { return PlanOf(cuts, shapes); });
}

absl::StatusOr<ViewPlan> RequestTensor::PlanOf(
    const std::vector<Cut>& cuts, std::span<const ViewLeaf> leaves) {
  if (cuts.empty()) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "it has none of the positions");
  }
  ViewPlan plan;
  std::vector<std::vector<Gather>> parts;  // By term.
  for (const Cut& cut : cuts) {
    const LogicalTensor& tensor = *cut.source->tensor;
    const RequestPiece& piece = cut.source->range.piece;
    if (!cut.source->place.has_value()) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "no dimension of {} has the rows of a batch of {}",
                        ShapeText(tensor.shape), BatchText(piece.batch));
    }
    ViewPlan whole = PlanOfTensor(tensor, cut.first_leaf, leaves);
    for (Gather& term : whole.terms) {
      term = CutPositions(std::move(term), *cut.source->place, piece,
                          cut.positions);
    }
    whole.shape = whole.terms.front().shape();
    const bool is_first = parts.empty();
    if (is_first) {
      parts.resize(whole.terms.size());
    } else if (!AreAlike(plan, whole)) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "its rows have other shapes or types at another token");
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].push_back(std::move(whole.terms[i]));
    }
    if (is_first) plan = std::move(whole);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    plan.terms[i] = parts[i].size() == 1 ? std::move(parts[i].front())
                                         : Gather::Concat(parts[i], 0);
  }
  plan.shape = plan.terms.front().shape();
  return plan;
}

LogicalTensor RequestTensor::Refuse(const std::string& problem) const {
  std::vector<RowRange> wanted;
  for (const Source& source : sources_) {
    wanted.push_back(source.range.positions);
  }
  const LogicalTensor& first = *sources_.front().tensor;
  return SeenAsRequest(
      first, PositionsText(Merged(std::move(wanted))),
      {RecordedOf(first).front()},
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
