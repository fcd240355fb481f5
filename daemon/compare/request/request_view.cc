// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/request_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "daemon/compare/request/row_place.h"
#include "daemon/compare/view/gather.h"
#include "daemon/compare/view/read_cost.h"
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
  ViewPlan out = *tensor.view->plan;
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

// Adds a range after all others. Merges it with the last one if they touch.
void Append(const RowRange& range, std::vector<RowRange>& out) {
  if (range.size() == 0) return;
  if (!out.empty() && out.back().end == range.first) {
    out.back().end = range.end;
  } else {
    out.push_back(range);
  }
}

SharedTensors Joined(std::span<const SharedTensors> lists) {
  if (lists.size() == 1) return lists.front();
  std::vector<LogicalTensor> out;
  for (const SharedTensors& list : lists) {
    out.insert(out.end(), list.begin(), list.end());
  }
  return SharedTensors(std::move(out));
}

}  // namespace

SharedTensors RequestTensor::Source::Recorded() const {
  const LogicalTensor& own = tensor();
  return own.view == nullptr ? tensors->Only(number) : own.view->leaves;
}

void RequestTensor::Add(const SharedTensors& tensors, size_t number,
                        const PieceRange& range) {
  const LogicalTensor& tensor = tensors[number];
  Source source{&tensors, number, &range};
  if (problem_.empty()) problem_ = ViewProblem(tensor);
  const bool has_order = tensor.view != nullptr && problem_.empty() &&
                         tensor.view->plan->any_order.has_value();
  if (has_order) {
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
  Append(source.positions, positions_);
  sources_.push_back(source);
}

LogicalTensor RequestTensor::View(std::span<const RowRange> positions,
                                  RowPlans& plans) const {
  if (!problem_.empty()) return Refuse(problem_);
  SharedTensors leaves;
  const std::vector<Cut> cuts = CutsOf(positions, leaves);
  if (leaves.size() > kRequestLeavesMax) {
    return Refuse(fmt::format("it reads {} tensors, at most {}", leaves.size(),
                              kRequestLeavesMax));
  }
  const auto make_plan = [&](bool is_read) {
    PlanKey& key = plans.NewKey();
    FillKey(cuts, leaves, is_read, key);
    return plans.Get(key, [&]() -> absl::StatusOr<SharedPlan> {
      const std::vector<ViewLeaf> shapes = ViewLeavesOf(leaves);
      MSITD_ASSIGN_OR_RETURN(ViewPlan plan, PlanOf(cuts, shapes));
      if (is_read) {
        MSITD_RETURN_IF_ERROR(CheckReadCost(plan, shapes));
      }
      return std::make_shared<const ViewPlan>(std::move(plan));
    });
  };
  return SeenAsRequest(sources_.front().tensor(), plans.TextOf(positions),
                       leaves, make_plan);
}

std::vector<RequestTensor::Cut> RequestTensor::CutsOf(
    std::span<const RowRange> positions, SharedTensors& leaves) const {
  std::vector<Cut> cuts;
  cuts.reserve(sources_.size());
  // The tensors that are read, at most kJoinedTokensMax, and their first leaf.
  absl::InlinedVector<std::pair<const LogicalTensor*, uint32_t>, 1>
      first_leaves;
  absl::InlinedVector<SharedTensors, 1> recorded;
  uint32_t leaf_count = 0;
  for (const Source& source : sources_) {
    for (const RowRange& range : positions) {
      const RowRange common{std::max(source.positions.first, range.first),
                            std::min(source.positions.end, range.end)};
      if (common.first >= common.end) continue;
      const auto known = std::find_if(
          first_leaves.begin(), first_leaves.end(),
          [&](const auto& one) { return one.first == &source.tensor(); });
      const uint32_t first_leaf =
          known == first_leaves.end() ? leaf_count : known->second;
      if (known == first_leaves.end()) {
        first_leaves.emplace_back(&source.tensor(), first_leaf);
        recorded.push_back(source.Recorded());
        leaf_count += static_cast<uint32_t>(recorded.back().size());
      }
      cuts.push_back({&source, common, first_leaf});
    }
  }
  leaves =
      cuts.empty() ? sources_.front().Recorded().Only(0) : Joined(recorded);
  return cuts;
}

void RequestTensor::FillKey(std::span<const Cut> cuts,
                            const SharedTensors& leaves, bool is_read,
                            PlanKey& out) {
  out.push_back(is_read ? 1 : 0);
  for (const Cut& cut : cuts) {
    // The place of the rows follows from the range and the shape.
    const LogicalTensor& tensor = cut.source->tensor();
    const ViewPlan* const plan =
        tensor.view == nullptr ? nullptr : tensor.view->plan.get();
    const int64_t numbers[] = {std::bit_cast<intptr_t>(cut.source->range),
                               std::bit_cast<intptr_t>(plan),
                               cut.positions.first, cut.positions.end,
                               static_cast<int64_t>(cut.first_leaf)};
    out.insert(out.end(), std::begin(numbers), std::end(numbers));
  }
  for (const LogicalTensor& leaf : leaves) {
    out.push_back(static_cast<int64_t>(StreamDType(leaf)));
    out.push_back(static_cast<int64_t>(leaf.shape.size()));
    out.insert(out.end(), leaf.shape.begin(), leaf.shape.end());
  }
}

absl::StatusOr<ViewPlan> RequestTensor::PlanOf(
    std::span<const Cut> cuts, std::span<const ViewLeaf> leaves) {
  if (cuts.empty()) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "it has none of the positions");
  }
  ViewPlan plan;
  std::vector<std::vector<Gather>> parts;  // By term.
  for (const Cut& cut : cuts) {
    const LogicalTensor& tensor = cut.source->tensor();
    const RequestPiece& piece = cut.source->range->piece;
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
    Append(source.range->positions, wanted);
  }
  const Source& first = sources_.front();
  return SeenAsRequest(
      first.tensor(), PositionsText(wanted), first.Recorded().Only(0),
      [&](bool /*is_read*/) -> absl::StatusOr<SharedPlan> {
        return MakeStatus(absl::StatusCode::kFailedPrecondition, "{}", problem);
      });
}

std::vector<RowRange> CommonPositions(std::span<const RowRange> a,
                                      std::span<const RowRange> b) {
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

uint64_t CountPositions(std::span<const RowRange> positions) {
  uint64_t out = 0;
  for (const RowRange& range : positions) {
    out += static_cast<uint64_t>(range.size());
  }
  return out;
}

std::string PositionsText(std::span<const RowRange> positions) {
  std::string out = CountPositions(positions) == 1 ? "position " : "positions ";
  const auto end = std::back_inserter(out);
  for (size_t i = 0; i < positions.size(); ++i) {
    if (i > 0) out += ", ";
    if (i == kListedRangesMax) return out + "...";
    const RowRange& range = positions[i];
    fmt::format_to(end, "{}", range.first);
    if (range.size() != 1) fmt::format_to(end, "-{}", range.end - 1);
  }
  return out;
}

}  // namespace msitd::compare
