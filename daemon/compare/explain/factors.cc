// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"

// Factors and constants, of the whole tensor or of each index of a dimension.
namespace msitd::compare::explain {
namespace {

// The sums from which a line through (golden, target) follows.
struct LineSums {
  double count = 0;
  double g = 0;
  double t = 0;
  double gg = 0;
  double gt = 0;

  void Add(double golden, double target) {
    if (!std::isfinite(golden) || !std::isfinite(target)) return;
    count += 1;
    g += golden;
    t += target;
    gg += golden * golden;
    gt += golden * target;
  }
  double Factor() const { return gg > 0 ? gt / gg : 1; }
  double Offset() const { return count > 0 ? (t - g) / count : 0; }
};

struct Line {
  double factor = 1;
  double offset = 0;
};

Line LineOf(const LineSums& sums) {
  const double variance = sums.gg * sums.count - sums.g * sums.g;
  if (!(variance > 1e-12 * sums.gg * sums.count)) return {sums.Factor(), 0};
  const double factor = (sums.gt * sums.count - sums.g * sums.t) / variance;
  return {factor, (sums.t - factor * sums.g) / sums.count};
}

void TestWhole(Examination& pair) {
  LineSums sums;
  for (size_t i = 0; i < pair.size(); ++i) {
    sums.Add(pair.golden()[i], pair.target()[i]);
  }
  const auto golden = pair.golden();
  const double factor = sums.Factor();
  const double residual =
      pair.ResidualOf([&](size_t i) { return factor * golden[i]; },
                      Examination::Scale::kTarget);
  if (std::fabs(factor + 1) <= std::max(pair.limit(), 1e-9)) {
    pair.Offer(
        {Kind::kSign, "golden with the opposite sign", {}, 0.5, 0, residual});
  } else {
    pair.Offer({Kind::kFactor,
                fmt::format("golden * {:.6g}", factor),
                {factor},
                1,
                1,
                residual});
  }
  const double offset = sums.Offset();
  pair.Offer({Kind::kOffset,
              fmt::format("golden + {:.4g}", offset),
              {offset},
              1,
              1,
              pair.ResidualOf([&](size_t i) { return golden[i] + offset; })});
  // TestZeros tests a target without other elements.
  if (!(pair.target_norm() > 0)) return;
  const bool is_constant = pair.is_finite() && IsConstant(pair.target());
  const Line line = is_constant ? Line{0, pair.target().front()} : LineOf(sums);
  pair.Offer(
      {Kind::kAffine,
       is_constant
           ? fmt::format("{:.6g} in place of all elements", line.offset)
           : fmt::format("golden * {:.4g} + {:.4g}", line.factor, line.offset),
       {line.factor, line.offset},
       2,
       2,
       pair.ResidualOf(
           [&](size_t i) { return line.factor * golden[i] + line.offset; },
           Examination::Scale::kTarget)});
}

// Returns whether some elements of some indices permit a factor, or a constant,
// for each index.
bool MayHoldForEach(const Examination& pair, const Slices& slices) {
  constexpr size_t kIndices = 8;
  constexpr size_t kElements = 64;
  if (pair.sample().empty()) return true;
  double factor_squares = 0;
  double offset_squares = 0;
  double norm = 0;
  const size_t step = std::max<size_t>(slices.count / kIndices | 1, 1);
  const size_t width_step = std::max<size_t>(slices.width() / kElements | 1, 1);
  for (size_t index = 0; index < slices.count; index += step) {
    const auto visit = [&](const auto& add) {
      for (size_t k = 0; k < slices.width(); k += width_step) {
        const size_t i = slices.At(index, k);
        add(pair.golden()[i], pair.target()[i]);
      }
    };
    LineSums sums;
    visit([&](double g, double t) { sums.Add(g, t); });
    visit([&](double g, double t) {
      if (!std::isfinite(g) || !std::isfinite(t)) return;
      const double from_factor = t - sums.Factor() * g;
      const double from_offset = t - g - sums.Offset();
      factor_squares += from_factor * from_factor;
      offset_squares += from_offset * from_offset;
      norm += std::max(g * g, t * t);
    });
  }
  return pair.MayHold(std::min(factor_squares, offset_squares), norm);
}

// Tests one factor, or one constant, for each index. `name` completes
// `a factor for each ...`.
void TestEach(Examination& pair, const Slices& slices,
              const std::string& name) {
  if (slices.count < 2 || slices.width() < 2 || !MayHoldForEach(pair, slices)) {
    return;
  }
  const auto golden = pair.golden();
  std::vector<LineSums> sums(slices.count);
  ForEachElement(slices, [&](size_t index, size_t i) {
    sums[index].Add(golden[i], pair.target()[i]);
  });
  const auto offer = [&](Kind kind, std::string_view what, double residual,
                         const std::vector<double>& values) {
    const auto [least, most] =
        std::minmax_element(values.begin(), values.end());
    pair.Offer({kind,
                fmt::format("golden {} for each {}, {:.6g} to {:.6g}", what,
                            name, *least, *most),
                {},
                static_cast<double>(slices.count),
                slices.count,
                residual});
  };
  std::vector<double> values;
  for (const LineSums& of : sums) values.push_back(of.Factor());
  offer(Kind::kFactor, "* a factor",
        pair.ResidualOfEach(
            slices,
            [&](size_t index, size_t i) { return values[index] * golden[i]; },
            Examination::Scale::kTarget),
        values);
  for (size_t i = 0; i < slices.count; ++i) values[i] = sums[i].Offset();
  offer(Kind::kOffset, "+ a constant",
        pair.ResidualOfEach(
            slices,
            [&](size_t index, size_t i) { return golden[i] + values[index]; }),
        values);
}

}  // namespace

void TestFactors(Examination& pair) {
  TestWhole(pair);
  const auto& shape = pair.shape();
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    TestEach(pair, SlicesOf(shape, dim),
             fmt::format("index of dimension {}", dim));
  }
  // With two dimensions, rows are the indices of the first one.
  if (shape.size() > 2) TestEach(pair, RowsOf(shape), "row");
}

}  // namespace msitd::compare::explain
