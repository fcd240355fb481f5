// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <string>
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
      pair.ResidualOf([&](size_t i) { return factor * golden[i]; });
  if (std::fabs(factor + 1) <= std::max(pair.limit(), 1e-9)) {
    pair.Offer(
        {Kind::kSign, "golden with the opposite sign", {}, 0.5, 0, residual});
  } else {
    pair.Offer({Kind::kFactor,
                fmt::format("golden × {:.4g}", factor),
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
  const Line line = LineOf(sums);
  pair.Offer({Kind::kAffine,
              fmt::format("golden × {:.4g} + {:.4g}", line.factor, line.offset),
              {line.factor, line.offset},
              2,
              2,
              pair.ResidualOf([&](size_t i) {
                return line.factor * golden[i] + line.offset;
              })});
}

// Tests one factor, or one constant, for each index. `name` completes
// `a factor for each ...`.
void TestEach(Examination& pair, const Slices& slices,
              const std::string& name) {
  if (slices.count < 2 || slices.width() < 2) return;
  const auto golden = pair.golden();
  std::vector<LineSums> sums(slices.count);
  size_t i = 0;
  for (size_t outer = 0; outer < slices.outer; ++outer) {
    for (size_t index = 0; index < slices.count; ++index) {
      for (size_t k = 0; k < slices.inner; ++k, ++i) {
        sums[index].Add(golden[i], pair.target()[i]);
      }
    }
  }
  const auto complexity = static_cast<double>(slices.count);
  std::vector<double> values;
  for (const LineSums& of : sums) values.push_back(of.Factor());
  pair.Offer({Kind::kFactor,
              fmt::format("golden × a factor for each {}, {:.4g} to {:.4g}",
                          name, *std::min_element(values.begin(), values.end()),
                          *std::max_element(values.begin(), values.end())),
              {},
              complexity,
              slices.count,
              pair.ResidualOf([&](size_t at) {
                return values[slices.IndexOf(at)] * golden[at];
              })});
  for (size_t index = 0; index < slices.count; ++index) {
    values[index] = sums[index].Offset();
  }
  pair.Offer({Kind::kOffset,
              fmt::format("golden + a constant for each {}, {:.4g} to {:.4g}",
                          name, *std::min_element(values.begin(), values.end()),
                          *std::max_element(values.begin(), values.end())),
              {},
              complexity,
              slices.count,
              pair.ResidualOf([&](size_t at) {
                return golden[at] + values[slices.IndexOf(at)];
              })});
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
