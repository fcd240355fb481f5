// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/subset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/compare/explain/explain.h"

namespace msitd::compare::explain {
namespace {

// The part of all indices that may differ.
constexpr double kShareMax = 0.5;

std::optional<Subset> SubsetOf(const Examination& pair, size_t dim) {
  const Slices slices = SlicesOf(pair.shape(), dim);
  if (slices.count < 2 || slices.width() < 2) return std::nullopt;
  std::vector<double> errors(slices.count);
  std::vector<double> norms(slices.count);
  ForEachElement(slices, [&](size_t index, size_t i) {
    const double g = pair.golden()[i];
    const double t = pair.target()[i];
    if (g != t && !(std::isnan(g) && std::isnan(t))) {
      errors[index] += (g - t) * (g - t);
    }
    if (std::isfinite(g)) norms[index] += g * g;
  });
  const double mean = pair.golden_norm() * pair.golden_norm() /
                      static_cast<double>(slices.count);
  Subset out = {dim, slices.count, {}, 0};
  double rest = 0;
  for (size_t index = 0; index < slices.count; ++index) {
    // Rows that are nearly zero have the error of the tensor.
    constexpr double kFloor = 1e-2;
    const double scale = std::max(norms[index], kFloor * mean);
    const double limit = pair.limit() * pair.limit() * scale;
    if (errors[index] <= limit) {
      rest += errors[index];
    } else {
      out.indices.push_back(index);
    }
  }
  const double share = static_cast<double>(out.indices.size()) /
                       static_cast<double>(slices.count);
  if (out.indices.empty() || share > kShareMax) return std::nullopt;
  out.residual = std::sqrt(rest) / pair.golden_norm();
  if (!pair.Holds(out.residual)) return std::nullopt;
  return out;
}

double ShareOf(const Subset& subset) {
  return static_cast<double>(subset.indices.size()) /
         static_cast<double>(subset.count);
}

Elements Reduced(const Elements& elements, const Subset& subset) {
  const Slices slices = SlicesOf(elements.shape, subset.dim);
  Elements out;
  out.shape = elements.shape;
  out.shape[subset.dim] = static_cast<int64_t>(subset.indices.size());
  out.values.reserve(elements.values.size() / slices.count *
                     subset.indices.size());
  for (size_t outer = 0; outer < slices.outer; ++outer) {
    for (const size_t index : subset.indices) {
      const auto begin = elements.values.begin() +
                         static_cast<std::ptrdiff_t>(
                             (outer * slices.count + index) * slices.inner);
      out.values.insert(out.values.end(), begin,
                        begin + static_cast<std::ptrdiff_t>(slices.inner));
    }
  }
  return out;
}

}  // namespace

std::optional<Subset> FindSubset(const Examination& pair) {
  std::optional<Subset> best;
  for (size_t dim = 0; dim < pair.shape().size(); ++dim) {
    std::optional<Subset> found = SubsetOf(pair, dim);
    if (!found.has_value()) continue;
    if (!best.has_value() || ShareOf(*found) < ShareOf(*best)) {
      best = std::move(found);
    }
  }
  return best;
}

ExaminedOp PartOf(const ExaminedOp& op, const Subset& subset) {
  ExaminedOp out;
  out.golden = Reduced(op.golden, subset);
  out.target = Reduced(op.target, subset);
  out.dtype = op.dtype;
  out.noise = op.noise;
  for (const ExaminedInput& input : op.inputs) {
    if (input.elements.shape != op.golden.shape) continue;
    out.inputs.push_back({input.name, Reduced(input.elements, subset)});
  }
  return out;
}

}  // namespace msitd::compare::explain
