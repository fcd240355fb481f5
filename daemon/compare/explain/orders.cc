// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"
#include "daemon/compare/explain/index_map.h"

// Indices of a dimension in another order, and rows that have moved.
namespace msitd::compare::explain {
namespace {

// Indices with fewer elements may have the values of another one by chance.
constexpr size_t kMatchedWidthMin = 16;
// Among more indices, only those with similar keys are compared with each
// other.
constexpr size_t kIndicesMax = 8192;
constexpr size_t kComparedIndicesMax = 512;
constexpr size_t kNeighborsMax = 16;
constexpr size_t kSignatureLength = 16;

using Signature = std::array<double, kSignatureLength>;

// Some elements of each index.
std::vector<Signature> SignaturesOf(std::span<const double> values,
                                    const Slices& slices) {
  std::vector<Signature> out(slices.count);
  for (size_t index = 0; index < slices.count; ++index) {
    for (size_t k = 0; k < kSignatureLength; ++k) {
      out[index][k] =
          values[slices.At(index, k * slices.width() / kSignatureLength)];
    }
  }
  return out;
}

double DistanceOf(const Signature& a, const Signature& b) {
  double out = 0;
  for (size_t k = 0; k < kSignatureLength; ++k) {
    if (a[k] != b[k]) out += (a[k] - b[k]) * (a[k] - b[k]);
  }
  return std::isnan(out) ? kInfinite : out;
}

double NormOf(const Signature& a) {
  double out = 0;
  for (const double x : a) out += x * x;
  return out;
}

double KeyOf(const Signature& a) {
  double out = 0;
  for (size_t k = 0; k < kSignatureLength; ++k) {
    out += a[k] * (1 + static_cast<double>(k));
  }
  return out;
}

// Finds the golden index that is most similar to each index of the target.
class IndexMatcher {
 public:
  IndexMatcher(std::span<const double> golden, std::span<const double> target,
               const Slices& slices, double limit)
      : golden_(SignaturesOf(golden, slices)),
        target_(SignaturesOf(target, slices)),
        limit_(limit) {
    for (const Signature& one : golden_) keys_.push_back(KeyOf(one));
    order_.resize(golden_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(),
              [this](size_t a, size_t b) { return keys_[a] < keys_[b]; });
  }

  // Returns nothing if some index has no counterpart.
  std::optional<std::vector<size_t>> Map() const {
    std::vector<size_t> out;
    for (size_t index = 0; index < target_.size(); ++index) {
      const std::optional<size_t> found = Find(index);
      if (!found.has_value()) return std::nullopt;
      out.push_back(*found);
    }
    return out;
  }

 private:
  bool Agree(size_t golden, size_t target) const {
    return DistanceOf(golden_[golden], target_[target]) <= TolerableFor(target);
  }
  double TolerableFor(size_t target) const {
    constexpr double kTolerated = 4;
    return kTolerated * kTolerated * limit_ * limit_ * NormOf(target_[target]);
  }

  std::optional<size_t> Find(size_t index) const {
    if (Agree(index, index)) return index;
    size_t begin = 0;
    size_t end = order_.size();
    if (order_.size() > kComparedIndicesMax) {
      const double key = KeyOf(target_[index]);
      const auto at = std::lower_bound(
          order_.begin(), order_.end(), key,
          [this](size_t i, double value) { return keys_[i] < value; });
      const auto position = static_cast<size_t>(at - order_.begin());
      begin = position > kNeighborsMax ? position - kNeighborsMax : 0;
      end = std::min(order_.size(), position + kNeighborsMax);
    }
    double least = TolerableFor(index);
    std::optional<size_t> best;
    for (size_t i = begin; i < end; ++i) {
      const double distance = DistanceOf(golden_[order_[i]], target_[index]);
      if (distance > least || (best.has_value() && distance == least)) continue;
      least = distance;
      best = order_[i];
    }
    return best;
  }

  const std::vector<Signature> golden_;
  const std::vector<Signature> target_;
  const double limit_;
  std::vector<double> keys_;
  std::vector<size_t> order_;
};

void TestOrder(Examination& pair, Slices slices, size_t dim, size_t block) {
  if (slices.count < 2 || slices.count > kIndicesMax) return;
  const IndexMatcher matcher(pair.golden(), pair.target(), slices,
                             std::max(pair.limit(), 1e-12));
  const auto map = matcher.Map();
  if (!map.has_value()) return;
  size_t moved = 0;
  for (size_t i = 0; i < map->size(); ++i) moved += (*map)[i] == i ? 0 : 1;
  if (moved == 0) return;
  const auto golden = pair.golden();
  const size_t stride = slices.inner;
  const double residual =
      pair.ResidualOfEach(slices, [&](size_t index, size_t i) {
        return golden[i + (*map)[index] * stride - index * stride];
      });
  const IndexMapText text = DescribeIndexMap(*map, dim, block);
  pair.Offer({Kind::kOrder,
              text.text,
              {},
              1 + static_cast<double>(text.length),
              0,
              residual});
}

}  // namespace

void TestOrders(Examination& pair) {
  const auto& shape = pair.shape();
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const Slices single = SlicesOf(shape, dim);
    // The smallest blocks of indices that are wide enough. A block must not
    // consist of all indices.
    for (size_t block = 1; 2 * block <= single.count; ++block) {
      if (single.count % block != 0 ||
          single.width() * block < kMatchedWidthMin) {
        continue;
      }
      TestOrder(pair,
                {single.count / block, single.inner * block, single.outer}, dim,
                block);
      break;
    }
  }
}

namespace {

// Tests whether the indices of a dimension have moved by some places. Where
// nothing has moved in, the target cannot be predicted.
void TestShift(Examination& pair, size_t dim, const Slices& slices,
               size_t places, bool is_later) {
  const auto golden = pair.golden();
  const auto target = pair.target();
  const size_t first = is_later ? places : 0;
  const size_t end = slices.count - (is_later ? 0 : places);
  const auto offset =
      static_cast<std::ptrdiff_t>(places * slices.inner) * (is_later ? -1 : 1);
  const double residual = pair.ResidualOfEach(slices, [&](size_t index,
                                                          size_t i) {
    if (index < first || index >= end) return target[i];
    return golden[static_cast<size_t>(static_cast<std::ptrdiff_t>(i) + offset)];
  });
  if (residual == kInfinite) return;
  std::vector<double> differences(slices.count);
  std::vector<double> norms(slices.count);
  ForEachElement(slices, [&](size_t index, size_t i) {
    const double d = target[i] - golden[i];
    if (d != 0) differences[index] += d * d;
    norms[index] += golden[i] * golden[i];
  });
  double without = 0;
  size_t moved = 0;
  size_t used = 0;
  for (size_t index = first; index < end; ++index) {
    without += differences[index];
    const double tolerable = pair.limit() * pair.limit() * norms[index];
    moved += differences[index] <= tolerable ? 0 : 1;
    // Padding and unused places are zero in both.
    used += norms[index] > 0 || differences[index] > 0 ? 1 : 0;
  }
  // If most indices are equal to the next one, as repeated heads are, the
  // others may have been exchanged for another reason.
  if (2 * moved < used) return;
  pair.Offer(
      {Kind::kShift,
       fmt::format("the indices of dimension {} are {} place{} {}", dim, places,
                   places == 1 ? "" : "s", is_later ? "later" : "earlier"),
       {static_cast<double>(places) * (is_later ? 1 : -1)},
       1,
       0,
       residual,
       std::isnan(without) ? kInfinite
                           : std::sqrt(without) / pair.golden_norm()});
}

}  // namespace

void TestShifts(Examination& pair) {
  constexpr size_t kPlacesMax = 3;
  constexpr size_t kIndicesPerPlace = 4;
  for (size_t dim = 0; dim < pair.shape().size(); ++dim) {
    const Slices slices = SlicesOf(pair.shape(), dim);
    for (size_t places = 1;
         places <= kPlacesMax && places * kIndicesPerPlace <= slices.count;
         ++places) {
      for (const bool is_later : {true, false}) {
        TestShift(pair, dim, slices, places, is_later);
      }
    }
  }
}

}  // namespace msitd::compare::explain
