// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"

// The eps of a norm. The golden row is (x - mean) / sqrt(v + eps) times a
// weight, so the two runs differ by a factor of each row that depends on the
// variance v of the input.
namespace msitd::compare::explain {
namespace {

constexpr size_t kNormedRowsMin = 4;
// The eps of golden runs that few rows are tested with.
constexpr std::array<double, 3> kUsualEps = {1e-6, 1e-5, 1e-12};

// No norm has a larger eps.
constexpr double kEpsMax = 1;

struct BothEps {
  double golden = 0;
  double target = 0;
};

class NormTest {
 public:
  NormTest(Examination& pair, const std::vector<double>& x, bool subtracts_mean)
      : pair_(pair),
        rows_(RowsOf(pair.shape())),
        x_(x),
        subtracts_mean_(subtracts_mean) {}

  // `bias` is null if there is none; otherwise it has an element for each
  // channel.
  void Run(const std::vector<double>* bias) {
    if (!MayHold(bias)) return;
    if (variances_.empty()) FindVariances();
    const std::vector<double> factors = FactorsOf(bias);
    if (rows_.count < kNormedRowsMin) {
      for (const double golden : kUsualEps) RunWith(golden, factors, bias);
      return;
    }
    for (const bool has_golden_eps : {true, false}) {
      const BothEps eps = Solve(factors, has_golden_eps);
      if (!(eps.golden >= 0 && eps.target >= 0) ||
          !std::isfinite(eps.golden + eps.target)) {
        continue;
      }
      OfferEps(eps, bias, 2);
    }
  }

 private:
  void FindVariances() {
    for (size_t row = 0; row < rows_.count; ++row) {
      double sum = 0;
      double squares = 0;
      for (size_t i = 0; i < rows_.inner; ++i) {
        const double value = x_[row * rows_.inner + i];
        sum += value;
        squares += value * value;
      }
      const auto width = static_cast<double>(rows_.inner);
      const double mean = subtracts_mean_ ? sum / width : 0;
      means_.push_back(mean);
      variances_.push_back(squares / width - mean * mean);
    }
  }

  void OfferEps(const BothEps& eps, const std::vector<double>* bias,
                double complexity) {
    std::vector<double> factors;
    for (const double v : variances_) {
      factors.push_back(std::sqrt((v + eps.golden) / (v + eps.target)));
    }
    const double residual =
        pair_.ResidualOfEach(rows_, [&](size_t row, size_t i) {
          const double b = bias == nullptr ? 0 : (*bias)[i % rows_.inner];
          return b + (pair_.golden()[i] - b) * factors[row];
        });
    if (!pair_.Holds(residual) || !IsNorm(eps.golden, bias)) return;
    pair_.Offer({Kind::kEps,
                 fmt::format("eps of a norm: {:.2g} in place of {:.2g}",
                             eps.target, eps.golden),
                 {eps.golden, eps.target},
                 complexity,
                 2,
                 residual});
  }

  // Returns whether the golden tensor is a norm of the input: the weights of
  // the channels are those of all rows. Other functions may have a factor for
  // each row, too.
  bool IsNorm(double eps, const std::vector<double>* bias) const {
    if (eps > kEpsMax) return false;
    if (rows_.count < 2) return true;
    const auto for_each = [&](const auto& visit) {
      for (size_t row = 0; row < rows_.count; ++row) {
        const double scale = 1 / std::sqrt(variances_[row] + eps);
        for (size_t k = 0; k < rows_.inner; ++k) {
          const size_t i = row * rows_.inner + k;
          visit(k, (x_[i] - means_[row]) * scale,
                pair_.golden()[i] - (bias == nullptr ? 0 : (*bias)[k]));
        }
      }
    };
    std::vector<double> zz(rows_.inner);
    std::vector<double> zg(rows_.inner);
    for_each([&](size_t k, double z, double g) {
      zz[k] += z * z;
      zg[k] += z * g;
    });
    double squares = 0;
    for_each([&](size_t k, double z, double g) {
      const double d = zz[k] > 0 ? g - z * zg[k] / zz[k] : g;
      squares += d * d;
    });
    return std::sqrt(squares) <= pair_.limit() * pair_.golden_norm();
  }

  // Tests few rows, which cannot determine both eps: that of the target must be
  // a power of ten.
  void RunWith(double golden, const std::vector<double>& factors,
               const std::vector<double>* bias) {
    const double v = variances_[0];
    const double target = (v + golden) / (factors[0] * factors[0]) - v;
    if (!(target > 0) || !std::isfinite(target)) return;
    const double power = std::pow(10, std::round(std::log10(target)));
    if (std::fabs(power - target) > pair_.limit() * (v + target)) return;
    OfferEps({golden, power}, bias, 0.95);
  }

  // Returns whether some rows differ by a factor.
  bool MayHold(const std::vector<double>* bias) const {
    constexpr size_t kRows = 8;
    double squares = 0;
    double norm = 0;
    const size_t step = std::max<size_t>(rows_.count / kRows, 1);
    for (size_t row = 0; row < rows_.count; row += step) {
      double gg = 0;
      double gt = 0;
      double tt = 0;
      for (size_t i = 0; i < rows_.inner; ++i) {
        const double b = bias == nullptr ? 0 : (*bias)[i];
        const double g = pair_.golden()[row * rows_.inner + i] - b;
        const double t = pair_.target()[row * rows_.inner + i] - b;
        gg += g * g;
        gt += g * t;
        tt += t * t;
      }
      squares += gg > 0 ? std::max(0.0, tt - gt * gt / gg) : tt;
      norm += std::max(gg, tt);
    }
    // Differences of nearly equal squares are rounded.
    return pair_.MayHold(squares - 1e-12 * norm, norm);
  }

  // Returns the factor of each row, without the bias.
  std::vector<double> FactorsOf(const std::vector<double>* bias) const {
    std::vector<double> out;
    for (size_t row = 0; row < rows_.count; ++row) {
      double gg = 0;
      double gt = 0;
      for (size_t i = 0; i < rows_.inner; ++i) {
        const double b = bias == nullptr ? 0 : (*bias)[i];
        const double g = pair_.golden()[row * rows_.inner + i] - b;
        gg += g * g;
        gt += g * (pair_.target()[row * rows_.inner + i] - b);
      }
      out.push_back(gg > 0 ? gt / gg : 1);
    }
    return out;
  }

  // Solves f^2 (v + eps of target) = v + eps of golden for all rows, by least
  // squares of the error relative to v.
  BothEps Solve(const std::vector<double>& factors, bool has_golden_eps) const {
    double aa = 0;
    double ab = 0;
    double bb = 0;
    double ac = 0;
    double bc = 0;
    for (size_t row = 0; row < factors.size(); ++row) {
      const double v = variances_[row];
      if (!(v > 0)) continue;
      const double square = factors[row] * factors[row];
      const double a = square / v;
      const double b = -1 / v;
      const double c = 1 - square;
      aa += a * a;
      ab += a * b;
      bb += b * b;
      ac += a * c;
      bc += b * c;
    }
    if (!has_golden_eps) return {0, aa > 0 ? ac / aa : 0};
    const double determinant = aa * bb - ab * ab;
    if (!(determinant > 0)) return {-1, -1};
    return {(aa * bc - ab * ac) / determinant,
            (bb * ac - ab * bc) / determinant};
  }

  Examination& pair_;
  const Slices rows_;
  const std::vector<double>& x_;
  const bool subtracts_mean_;
  // One for each row of the input.
  std::vector<double> variances_;
  std::vector<double> means_;
};

}  // namespace

void TestNorms(Examination& pair) {
  if (!pair.is_finite()) return;
  const Slices rows = RowsOf(pair.shape());
  if (rows.inner < kExaminedElementsMin) return;
  for (const ExaminedInput& input : pair.inputs()) {
    if (input.elements.values.size() != pair.size()) continue;
    for (const bool subtracts_mean : {false, true}) {
      NormTest test(pair, input.elements.values, subtracts_mean);
      test.Run(nullptr);
      for (const ExaminedInput& bias : pair.inputs()) {
        if (bias.elements.values.size() == rows.inner &&
            rows.inner < pair.size()) {
          test.Run(&bias.elements.values);
        }
      }
    }
  }
}

}  // namespace msitd::compare::explain
