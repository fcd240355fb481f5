// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/cache_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "daemon/compare/view/read_cost.h"
#include "daemon/compare/view/tensor_view.h"
#include "daemon/compare/view/view_plan.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr char kUnknownPlaces[] =
    "it is a cache, and where the request is in it was not recorded";

template <typename... Args>
absl::Status Unfit(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kFailedPrecondition, "{}",
                    fmt::format(format, std::forward<Args>(args)...));
}

absl::Status CheckPlaces(const std::vector<int64_t>& shape,
                         const CachePlaces& places, int64_t count) {
  const size_t dims = shape.size();
  if (places.outer_dim >= dims || places.inner_dim.value_or(0) >= dims) {
    return Unfit("[{}] lacks the dimensions of its places",
                 fmt::join(shape, ","));
  }
  const bool has_rows = places.page_size == 0;
  const int64_t outer = shape[places.outer_dim];
  if (has_rows && places.row >= outer) {
    return Unfit("the request is in row {} of {}", places.row, outer);
  }
  if (!has_rows && places.inner_dim.has_value() &&
      shape[*places.inner_dim] != places.page_size) {
    return Unfit("its pages have {} positions, and not {}",
                 shape[*places.inner_dim], places.page_size);
  }
  const int64_t length = has_rows ? shape[*places.inner_dim] : outer;
  const int64_t per_element = std::max<int64_t>(places.page_size, 1);
  int64_t left = (count + per_element - 1) / per_element;
  for (const RowRange& range : places.ranges) {
    if (left <= 0) break;
    const int64_t used = std::min(left, range.size());
    if (range.first + used > length) {
      return Unfit("its places include {} {} of {}",
                   has_rows ? "column" : "page", range.first + used - 1,
                   length);
    }
    left -= used;
  }
  if (left > 0) {
    return Unfit("the places of {} of {} positions were recorded",
                 places.position_count(), count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Gather> CutCache(Gather cache, const CachePlaces& places,
                                int64_t count) {
  const std::vector<int64_t> shape = cache.shape();
  MSITD_RETURN_IF_ERROR(CheckPlaces(shape, places, count));
  const bool has_rows = places.page_size == 0;
  if (has_rows) cache.Slice(places.outer_dim, places.row, places.row + 1);
  // Columns or pages first, then the positions of a page.
  std::vector<size_t> order;
  if (has_rows) {
    order = {*places.inner_dim, places.outer_dim};
  } else {
    order = {places.outer_dim};
    if (places.inner_dim.has_value()) order.push_back(*places.inner_dim);
  }
  std::vector<int64_t> element;  // The shape of a position.
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i == places.outer_dim || places.inner_dim == i) continue;
    order.push_back(i);
    if (shape[i] != 1) element.push_back(shape[i]);
  }
  cache.Permute(order);
  const int64_t per_element = std::max<int64_t>(places.page_size, 1);
  std::vector<Gather> parts;
  int64_t left = (count + per_element - 1) / per_element;
  for (const RowRange& range : places.ranges) {
    if (left == 0) break;
    const int64_t used = std::min(left, range.size());
    left -= used;
    Gather part = cache;
    part.Slice(0, range.first, range.first + used);
    std::vector<int64_t> part_shape = {used * per_element};
    part_shape.insert(part_shape.end(), element.begin(), element.end());
    part.Reshape(part_shape);
    parts.push_back(std::move(part));
  }
  Gather out = parts.size() == 1 ? parts.front() : Gather::Concat(parts, 0);
  out.Slice(0, 0, count);
  return out;
}

const absl::StatusOr<Gather>& CacheCuts::Get(
    const std::vector<int64_t>& shape,
    const std::shared_ptr<const CachePlaces>& places, int64_t count) {
  const Key key(places, {count, shape});
  const auto found = cuts_.find(key);
  if (found != cuts_.end()) return found->second;
  return cuts_.emplace(key, CutCache(Gather::OfLeaf(0, shape), *places, count))
      .first->second;
}

LogicalTensor CachedTensor::View(int64_t count, CacheCuts& cuts) const {
  if (!ViewProblem(tensor_).empty()) return Refuse(ViewProblem(tensor_));
  if (places_ == nullptr) return Refuse(kUnknownPlaces);
  if (!places_->problem.empty()) {
    return Refuse("it is a cache: " + places_->problem);
  }
  if (tensor_.view != nullptr && tensor_.view->plan->any_order.has_value()) {
    return Refuse("the positions of a cache are in their order");
  }
  const SharedTensors leaves =
      tensor_.view == nullptr ? SharedTensors({tensor_}) : tensor_.view->leaves;
  const auto make_plan = [&](bool is_read) -> absl::StatusOr<SharedPlan> {
    const std::vector<ViewLeaf> shapes = ViewLeavesOf(leaves);
    ViewPlan plan;
    if (tensor_.view == nullptr) {
      MSITD_ASSIGN_OR_RETURN(Gather cut,
                             cuts.Get(shapes[0].shape, places_, count));
      plan.terms = {std::move(cut)};
      plan.term_dtypes = {shapes[0].dtype};
      plan.dtype = shapes[0].dtype;
    } else {
      plan = *tensor_.view->plan;
      for (Gather& term : plan.terms) {
        MSITD_ASSIGN_OR_RETURN(term,
                               CutCache(std::move(term), *places_, count));
      }
    }
    plan.shape = plan.terms.front().shape();
    if (is_read) MSITD_RETURN_IF_ERROR(CheckReadCost(plan, shapes));
    return std::make_shared<const ViewPlan>(std::move(plan));
  };
  const std::string positions =
      count == 1 ? std::string("cached position 0")
                 : fmt::format("cached positions 0-{}", count - 1);
  return SeenAsRequest(tensor_, positions, leaves, make_plan);
}

LogicalTensor CachedTensor::Refuse(const std::string& problem) const {
  return RefuseRows(tensor_, "cached positions", problem);
}

LogicalTensor RefuseRows(const LogicalTensor& tensor,
                         const std::string& positions,
                         const std::string& problem) {
  const LogicalTensor& recorded =
      tensor.view == nullptr ? tensor : tensor.view->leaves.front();
  return SeenAsRequest(
      tensor, positions, SharedTensors({recorded}),
      [&](bool /*is_read*/) -> absl::StatusOr<SharedPlan> {
        return MakeStatus(absl::StatusCode::kFailedPrecondition, "{}", problem);
      });
}

}  // namespace msitd::compare
