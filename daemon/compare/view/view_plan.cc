// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/view_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Kind = ViewStep::Kind;
using Shape = std::vector<int64_t>;

std::string ShapeText(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

// Returns the number of elements of a shape whose empty dimensions count as 1,
// or nothing if it is beyond 64 bits.
std::optional<uint64_t> CheckedCount(const Shape& shape) {
  uint64_t out = 1;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(out, std::max<uint64_t>(dim, 1), &out)) {
      return std::nullopt;
    }
  }
  return out;
}

// Returns the maximum number of elements of a view; see kViewGrowthMax.
uint64_t ElementsMax(std::span<const ViewLeaf> leaves) {
  uint64_t total = 0;
  for (const ViewLeaf& leaf : leaves) {
    total += std::min(CheckedCount(leaf.shape).value_or(kViewElementsMax),
                      kViewElementsMax);
  }
  return std::clamp(total * kViewGrowthMax, kViewElementsMin, kViewElementsMax);
}

// Returns a shape without dimensions of length 1.
Shape Squeezed(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

// Applies the steps of a view one after the other.
class Planner {
 public:
  explicit Planner(std::span<const ViewLeaf> leaves)
      : leaves_(leaves), elements_max_(ElementsMax(leaves)) {
    plan_.terms = {Gather::OfLeaf(0, leaves.front().shape)};
    plan_.term_dtypes = {leaves.front().dtype};
    plan_.shape = leaves.front().shape;
    plan_.dtype = leaves.front().dtype;
  }

  absl::Status Apply(const ViewStep& step) {
    step_ = &step;
    MSITD_RETURN_IF_ERROR(Dispatch(step));
    std::vector<int64_t> shape = plan_.terms.front().shape();
    if (shape.size() > kDimsMax) {
      return Unfit(fmt::format("more than {} dimensions", kDimsMax));
    }
    const std::optional<uint64_t> count = CheckedCount(shape);
    if (!count.has_value() || *count > elements_max_) {
      return Unfit(fmt::format("{} has more than {} elements", ShapeText(shape),
                               elements_max_));
    }
    plan_.shape = std::move(shape);
    return absl::OkStatus();
  }

  ViewPlan Finish() && { return std::move(plan_); }

 private:
  absl::Status Unfit(const std::string& why) const {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "{} does not fit {}: {}", step_->text,
                      ShapeText(plan_.shape), why);
  }

  absl::StatusOr<size_t> DimOf(int64_t dim) const {
    const auto count = static_cast<int64_t>(plan_.shape.size());
    if (dim < -count || dim >= count) {
      return Unfit(fmt::format("it has no dimension {}", dim));
    }
    return static_cast<size_t>(dim < 0 ? dim + count : dim);
  }

  absl::Status Dispatch(const ViewStep& step) {
    switch (step.kind) {
      case Kind::kPermute:
        return Permute(step);
      case Kind::kTranspose:
        return Transpose(step);
      case Kind::kReshape:
        return Reshape(step);
      case Kind::kFlatten:
        return Flatten(step);
      case Kind::kSlice:
        return Slice(step);
      case Kind::kSplit:
        return Split(step);
      case Kind::kRows:
        return Rows(step);
      case Kind::kHeads:
        return Heads(step);
      case Kind::kRopePairs:
        return RopePairs(step);
      case Kind::kConcat:
        return Concat(step);
      case Kind::kSum:
        return Sum(step);
      case Kind::kDequantize:
        return Dequantize(step);
      case Kind::kAnyOrder: {
        MSITD_ASSIGN_OR_RETURN(plan_.any_order, DimOf(step.dim));
        return absl::OkStatus();
      }
    }
    MSITD_CHECK(false);
  }

  void PermuteAll(const std::vector<size_t>& order) {
    for (Gather& term : plan_.terms) term.Permute(order);
  }
  void ReshapeAll(const Shape& shape) {
    for (Gather& term : plan_.terms) term.Reshape(shape);
  }
  void SliceAll(size_t dim, int64_t begin, int64_t end) {
    for (Gather& term : plan_.terms) term.Slice(dim, begin, end);
  }

  absl::Status Permute(const ViewStep& step) {
    std::vector<size_t> order;
    std::vector<bool> is_used(plan_.shape.size());
    for (const int64_t number : step.numbers) {
      MSITD_ASSIGN_OR_RETURN(const size_t dim, DimOf(number));
      if (is_used[dim]) return Unfit(fmt::format("{} is used twice", number));
      is_used[dim] = true;
      order.push_back(dim);
    }
    if (order.size() != plan_.shape.size()) {
      return Unfit(fmt::format("it has {} dimensions", plan_.shape.size()));
    }
    PermuteAll(order);
    return absl::OkStatus();
  }

  absl::Status Transpose(const ViewStep& step) {
    MSITD_ASSIGN_OR_RETURN(const size_t a, DimOf(step.numbers[0]));
    MSITD_ASSIGN_OR_RETURN(const size_t b, DimOf(step.numbers[1]));
    std::vector<size_t> order(plan_.shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::swap(order[a], order[b]);
    PermuteAll(order);
    return absl::OkStatus();
  }

  absl::Status Reshape(const ViewStep& step) {
    Shape shape = step.numbers;
    const uint64_t count = ElementCount(plan_.shape);
    uint64_t known = 1;
    int64_t* open = nullptr;
    for (int64_t& dim : shape) {
      if (dim == -1 && open == nullptr) {
        open = &dim;
        continue;
      }
      if (dim < 0) return Unfit("only one dimension may be -1");
      if (__builtin_mul_overflow(known, static_cast<uint64_t>(dim), &known)) {
        return Unfit("the new shape has too many elements");
      }
    }
    if (open != nullptr) {
      if (known == 0 || count % known != 0) {
        return Unfit(
            fmt::format("{} elements are not a multiple of {}", count, known));
      }
      *open = static_cast<int64_t>(count / known);
    } else if (known != count) {
      return Unfit(fmt::format("{} elements are not {}", count, known));
    }
    ReshapeAll(shape);
    return absl::OkStatus();
  }

  absl::Status Flatten(const ViewStep& step) {
    if (plan_.shape.empty()) {
      ReshapeAll({1});
      return absl::OkStatus();
    }
    MSITD_ASSIGN_OR_RETURN(const size_t first, DimOf(step.numbers[0]));
    MSITD_ASSIGN_OR_RETURN(const size_t last, DimOf(step.numbers[1]));
    if (first > last) return Unfit("its first dimension is after its last one");
    Shape shape(plan_.shape.begin(),
                plan_.shape.begin() + static_cast<ptrdiff_t>(first));
    int64_t length = 1;
    for (size_t i = first; i <= last; ++i) {
      if (__builtin_mul_overflow(length, plan_.shape[i], &length)) {
        return Unfit("the dimension becomes too long");
      }
    }
    shape.push_back(length);
    shape.insert(shape.end(),
                 plan_.shape.begin() + static_cast<ptrdiff_t>(last) + 1,
                 plan_.shape.end());
    ReshapeAll(shape);
    return absl::OkStatus();
  }

  // Returns the ends of a range, which must be within the dimension.
  absl::StatusOr<std::pair<int64_t, int64_t>> Ends(const ViewRange& range,
                                                   size_t dim) const {
    const int64_t size = plan_.shape[dim];
    int64_t begin = range.begin.value_or(0);
    int64_t end = range.end.value_or(size);
    if (begin < 0) begin += size;
    if (end < 0) end += size;
    if (begin < 0 || end > size || begin > end) {
      return Unfit(fmt::format("{} to {} exceeds dimension {} of {}", begin,
                               end, dim, size));
    }
    return std::pair(begin, end);
  }

  absl::Status Slice(const ViewStep& step) {
    MSITD_ASSIGN_OR_RETURN(const size_t dim, DimOf(step.dim));
    MSITD_ASSIGN_OR_RETURN(const auto ends, Ends(step.ranges[0], dim));
    SliceAll(dim, ends.first, ends.second);
    return absl::OkStatus();
  }

  // Divides the dimension into (groups, length / groups), takes the part of
  // each group and joins them.
  absl::Status Split(const ViewStep& step) {
    MSITD_ASSIGN_OR_RETURN(const size_t dim, DimOf(step.dim));
    const int64_t size = plan_.shape[dim];
    int64_t total = 0;
    int64_t before = 0;
    for (size_t i = 0; i < step.numbers.size(); ++i) {
      if (static_cast<int64_t>(i) < step.part) before += step.numbers[i];
      total += step.numbers[i];
    }
    int64_t unit = 0;
    if (__builtin_mul_overflow(total, step.groups, &unit) || size % unit != 0) {
      return Unfit(fmt::format(
          "dimension {} of {} is not a multiple of the {} that the parts have "
          "together",
          dim, size, unit));
    }
    const int64_t share = size / unit;
    Shape shape = plan_.shape;
    shape[dim] = step.groups;
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim) + 1,
                 share * total);
    ReshapeAll(shape);
    const auto part = static_cast<size_t>(step.part);
    const int64_t begin = before * share;
    const int64_t length = step.numbers[part] * share;
    SliceAll(dim + 1, begin, begin + length);
    shape = plan_.shape;
    shape[dim] = step.groups * length;
    ReshapeAll(shape);
    return absl::OkStatus();
  }

  absl::Status Rows(const ViewStep& step) {
    if (plan_.shape.empty()) return Unfit("a scalar has no rows");
    std::vector<std::vector<Gather>> parts(plan_.terms.size());
    for (const ViewRange& range : step.ranges) {
      MSITD_ASSIGN_OR_RETURN(const auto ends, Ends(range, 0));
      for (size_t i = 0; i < parts.size(); ++i) {
        Gather part = plan_.terms[i];
        part.Slice(0, ends.first, ends.second);
        parts[i].push_back(std::move(part));
      }
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      plan_.terms[i] =
          parts[i].size() == 1 ? parts[i].front() : Gather::Concat(parts[i], 0);
    }
    return absl::OkStatus();
  }

  absl::Status Heads(const ViewStep& step) {
    if (plan_.shape.size() < 2) return Unfit("heads need two dimensions");
    const int64_t width = plan_.shape.back();
    if (width % step.part != 0) {
      return Unfit(fmt::format("{} is not a multiple of {}", width, step.part));
    }
    Shape shape = plan_.shape;
    shape.back() = step.part;
    shape.push_back(width / step.part);
    ReshapeAll(shape);
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::swap(order[shape.size() - 3], order[shape.size() - 2]);
    PermuteAll(order);
    return absl::OkStatus();
  }

  absl::Status RopePairs(const ViewStep& step) {
    MSITD_ASSIGN_OR_RETURN(const size_t dim, DimOf(step.dim));
    const int64_t size = plan_.shape[dim];
    if (size % 2 != 0) return Unfit(fmt::format("{} is an odd length", size));
    Shape shape = plan_.shape;
    shape[dim] = size / 2;
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(dim) + 1, 2);
    ReshapeAll(shape);
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::swap(order[dim], order[dim + 1]);
    PermuteAll(order);
    ReshapeAll(plan_.shape);
    return absl::OkStatus();
  }

  absl::Status Concat(const ViewStep& step) {
    if (plan_.is_computed()) {
      return Unfit("values that are computed cannot be concatenated");
    }
    MSITD_ASSIGN_OR_RETURN(const size_t dim, DimOf(step.dim));
    std::vector<Gather> parts = {plan_.terms.front()};
    int64_t length = plan_.shape[dim];
    for (size_t i = 0; i < step.leaves.size(); ++i) {
      const ViewLeaf& leaf = leaves_[next_leaf_];
      if (leaf.dtype != plan_.dtype) {
        return Unfit(fmt::format("tensor {} is {} and not {}", i + 1,
                                 DTypeName(leaf.dtype),
                                 DTypeName(plan_.dtype)));
      }
      Shape shape = leaf.shape;
      if (shape.size() == plan_.shape.size()) shape[dim] = plan_.shape[dim];
      if (shape != plan_.shape ||
          __builtin_add_overflow(length, leaf.shape[dim], &length)) {
        return Unfit(fmt::format("tensor {} has shape {}", i + 1,
                                 ShapeText(leaf.shape)));
      }
      parts.push_back(Gather::OfLeaf(next_leaf_++, leaf.shape));
    }
    plan_.terms.front() = Gather::Concat(parts, dim);
    return absl::OkStatus();
  }

  absl::Status Sum(const ViewStep& step) {
    if (IsComplex(plan_.dtype)) return Unfit("complex tensors are not added");
    if (plan_.kind == ViewPlan::Kind::kDequantize) {
      return Unfit("values that are dequantized cannot be added");
    }
    const auto needs_double = [](DType dtype) {
      return dtype == DType::kFloat64 || !IsFloatingPoint(dtype);
    };
    bool is_double = needs_double(plan_.dtype);
    for (size_t i = 0; i < step.leaves.size(); ++i) {
      const ViewLeaf& leaf = leaves_[next_leaf_];
      if (leaf.shape != plan_.shape || IsComplex(leaf.dtype)) {
        return Unfit(fmt::format("tensor {} is {} of shape {}", i + 1,
                                 DTypeName(leaf.dtype), ShapeText(leaf.shape)));
      }
      is_double = is_double || needs_double(leaf.dtype);
      plan_.terms.push_back(Gather::OfLeaf(next_leaf_++, leaf.shape));
      plan_.term_dtypes.push_back(leaf.dtype);
    }
    plan_.dtype = is_double ? DType::kFloat64 : DType::kFloat32;
    plan_.kind = ViewPlan::Kind::kSum;
    return absl::OkStatus();
  }

  // Multiplies by a scale for each block. A further scale multiplies again, as
  // NVFP4 has it.
  absl::Status Dequantize(const ViewStep& step) {
    if (plan_.kind == ViewPlan::Kind::kSum || IsComplex(plan_.dtype)) {
      return Unfit("sums and complex tensors are not dequantized");
    }
    bool is_double = plan_.dtype == DType::kFloat64;
    for (size_t i = 0; i < step.leaves.size(); ++i) {
      const ViewLeaf& leaf = leaves_[next_leaf_];
      if (i == 1 && plan_.is_computed()) {
        return Unfit("a second step has no zero point");
      }
      if (IsComplex(leaf.dtype)) {
        return Unfit(i == 1 ? "a zero point is complex" : "a scale is complex");
      }
      is_double = is_double || leaf.dtype == DType::kFloat64;
      Gather term = Gather::OfLeaf(next_leaf_++, leaf.shape);
      MSITD_RETURN_IF_ERROR(RepeatBlocks(step, i == 1 ? "zero point" : "scale",
                                         leaf.shape, term));
      if (i == 1) plan_.zero_term = plan_.terms.size();
      plan_.terms.push_back(std::move(term));
      plan_.term_dtypes.push_back(leaf.dtype);
    }
    plan_.dtype = is_double ? DType::kFloat64 : DType::kFloat32;
    plan_.kind = ViewPlan::Kind::kDequantize;
    return absl::OkStatus();
  }

  // Returns the lengths of the blocks that share a scale or a zero point, one
  // for each dimension. A block is not longer than the dimension. `name` says
  // which of the two `scale` is.
  absl::StatusOr<Shape> BlocksOf(const ViewStep& step, std::string_view name,
                                 const Shape& scale) const {
    const Shape& shape = plan_.shape;
    if (step.numbers.size() > shape.size()) {
      return Unfit(fmt::format("it has {} dimensions", shape.size()));
    }
    if (std::any_of(step.numbers.begin(), step.numbers.end(),
                    [](int64_t block) { return block < 0; })) {
      return Unfit("lengths of blocks must not be negative");
    }
    if (ElementCount(scale) == 1) return shape;
    if (step.numbers.empty()) {
      if (scale.size() != shape.size()) {
        return Unfit(
            fmt::format("a {} of shape {} needs the lengths of the "
                        "blocks",
                        name, ShapeText(scale)));
      }
      Shape out;
      for (size_t i = 0; i < shape.size(); ++i) {
        if (scale[i] == 0 || shape[i] % scale[i] != 0) {
          return Unfit(fmt::format("a {} of shape {} does not divide it", name,
                                   ShapeText(scale)));
        }
        out.push_back(shape[i] / scale[i]);
      }
      return out;
    }
    // The last dimensions have the given lengths; 0 is the whole dimension.
    Shape out(shape.size(), 1);
    const size_t first = shape.size() - step.numbers.size();
    for (size_t i = 0; i < step.numbers.size(); ++i) {
      const int64_t whole = shape[first + i];
      const int64_t block = step.numbers[i];
      out[first + i] = block == 0 ? whole : std::min(block, whole);
    }
    return out;
  }

  // Gives each element of the tensor the element of its block.
  absl::Status RepeatBlocks(const ViewStep& step, std::string_view name,
                            const Shape& scale, Gather& term) const {
    if (ElementCount(plan_.shape) == 0) return Unfit("it has no elements");
    MSITD_ASSIGN_OR_RETURN(const Shape blocks, BlocksOf(step, name, scale));
    Shape counts;
    Shape split;
    Shape padded;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const int64_t count = (plan_.shape[i] - 1) / blocks[i] + 1;
      padded.push_back(count * blocks[i]);
      counts.push_back(count);
      split.insert(split.end(), {count, 1});
    }
    if (!CheckedCount(padded).has_value()) return Unfit("it is too large");
    // A scale of the same number of elements in another shape, such as a
    // transposed one, would multiply the wrong elements. A flat scale lists the
    // blocks in row-major order.
    const Shape flat = {static_cast<int64_t>(ElementCount(counts))};
    const Shape squeezed = Squeezed(scale);
    if (squeezed != Squeezed(counts) && squeezed != flat) {
      return Unfit(
          fmt::format("a {} of shape {} does not have the shape {} of "
                      "the blocks",
                      name, ShapeText(scale), ShapeText(counts)));
    }
    term.Reshape(split);
    for (size_t i = 0; i < blocks.size(); ++i) {
      term.Repeat(2 * i + 1, blocks[i]);
    }
    term.Reshape(padded);
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (padded[i] != plan_.shape[i]) term.Slice(i, 0, plan_.shape[i]);
    }
    return absl::OkStatus();
  }

  const std::span<const ViewLeaf> leaves_;
  const uint64_t elements_max_;
  const ViewStep* step_ = nullptr;
  uint32_t next_leaf_ = 1;
  ViewPlan plan_;
};

}  // namespace

std::vector<LeafName> LeafNamesOf(std::span<const ViewStep> steps) {
  std::vector<LeafName> out;
  for (const ViewStep& step : steps) {
    out.insert(out.end(), step.leaves.begin(), step.leaves.end());
  }
  return out;
}

absl::StatusOr<ViewPlan> MakeViewPlan(std::span<const ViewStep> steps,
                                      std::span<const ViewLeaf> leaves) {
  MSITD_CHECK(leaves.size() == LeafNamesOf(steps).size() + 1);
  Planner planner(leaves);
  for (const ViewStep& step : steps) MSITD_RETURN_IF_ERROR(planner.Apply(step));
  return std::move(planner).Finish();
}

}  // namespace msitd::compare
