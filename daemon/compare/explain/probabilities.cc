// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "daemon/compare/explain/hypothesis.h"

// Results of a softmax: the scale of its scores, and its mask.
namespace msitd::compare::explain {
namespace {

// The sums of rows of probabilities may be rounded by this much.
constexpr double kSumErrorMax = 0.02;
// Probabilities that are smaller have rounding errors that matter in a
// logarithm.
constexpr double kSmallest = 1e-6;

bool AreProbabilities(std::span<const double> values, size_t width) {
  for (size_t begin = 0; begin < values.size(); begin += width) {
    double sum = 0;
    for (size_t i = begin; i < begin + width; ++i) {
      if (!(values[i] >= 0)) return false;
      sum += values[i];
    }
    if (!(std::fabs(sum - 1) <= kSumErrorMax)) return false;
  }
  return true;
}

// Returns the factor of the scores that turns golden into target probabilities:
// the slope of their logarithms, within each row.
double ScaleOf(const Examination& pair, size_t width) {
  // Some rows are enough for one number.
  constexpr size_t kElements = size_t{1} << 15;
  const size_t step =
      width * std::max<size_t>(pair.size() / std::max(kElements, width), 1);
  double xx = 0;
  double xy = 0;
  for (size_t begin = 0; begin < pair.size(); begin += step) {
    double weights = 0;
    double x_mean = 0;
    double y_mean = 0;
    const auto visit = [&](const auto& add) {
      for (size_t i = begin; i < begin + width; ++i) {
        const double g = pair.golden()[i];
        const double t = pair.target()[i];
        if (g < kSmallest || t < kSmallest) continue;
        add(std::sqrt(g * t), std::log(g), std::log(t));
      }
    };
    visit([&](double weight, double x, double y) {
      weights += weight;
      x_mean += weight * x;
      y_mean += weight * y;
    });
    if (!(weights > 0)) continue;
    x_mean /= weights;
    y_mean /= weights;
    visit([&](double weight, double x, double y) {
      xx += weight * (x - x_mean) * (x - x_mean);
      xy += weight * (x - x_mean) * (y - y_mean);
    });
  }
  return xx > 0 ? xy / xx : 1;
}

void TestScale(Examination& pair, size_t width) {
  const double scale = ScaleOf(pair, width);
  if (!std::isfinite(scale)) return;
  std::vector<double> predicted(pair.size());
  double squares = 0;
  for (size_t begin = 0; begin < pair.size(); begin += width) {
    double sum = 0;
    for (size_t i = begin; i < begin + width; ++i) {
      const double g = pair.golden()[i];
      predicted[i] = g > 0 ? std::pow(g, scale) : 0;
      sum += predicted[i];
    }
    for (size_t i = begin; i < begin + width; ++i) {
      predicted[i] /= sum;
      const double d = predicted[i] - pair.target()[i];
      squares += d * d;
    }
    // Most scales are wrong, which a few rows show.
    constexpr size_t kChecked = 4096;
    const double norm = std::max(pair.golden_norm(), pair.target_norm());
    if (begin / kChecked != (begin + width) / kChecked &&
        !(std::sqrt(squares) <= pair.limit() * norm)) {
      return;
    }
  }
  pair.Offer({Kind::kSoftmaxScale,
              fmt::format("softmax of scores * {:.4g}", scale),
              {scale},
              1,
              1,
              pair.ResidualOf([&](size_t i) { return predicted[i]; })});
}

// The numbers of positions that only one run closes.
struct ClosedCounts {
  size_t target = 0;
  size_t golden = 0;
  // The same numbers of each row with a difference, if they are equal.
  bool is_uniform = true;
  size_t target_of_row = 0;
  size_t golden_of_row = 0;

  void AddRow(size_t target_only, size_t golden_only) {
    if (target_only + golden_only == 0) return;
    if (target + golden == 0) {
      target_of_row = target_only;
      golden_of_row = golden_only;
    }
    is_uniform = is_uniform && target_only == target_of_row &&
                 golden_only == golden_of_row;
    target += target_only;
    golden += golden_only;
  }
  std::string Text() const {
    std::string out = "mask of other positions: ";
    const std::string each = is_uniform
                                 ? fmt::format(", {} in each row that differs",
                                               target_of_row + golden_of_row)
                                 : "";
    if (golden == 0)
      return fmt::format("{}closes {} more{}", out, target, each);
    if (target == 0) return fmt::format("{}opens {} more{}", out, golden, each);
    return fmt::format("{}closes {} and opens {} more", out, target, golden);
  }
};

void TestMask(Examination& pair, size_t width) {
  // The rows agree if each is normalized over the positions that both runs
  // open.
  ClosedCounts counts;
  double squares = 0;
  double norm = 0;
  double without = 0;
  size_t compared = 0;
  for (size_t begin = 0; begin < pair.size(); begin += width) {
    double g_sum = 0;
    double t_sum = 0;
    size_t both = 0;
    size_t target_only = 0;
    size_t golden_only = 0;
    for (size_t i = begin; i < begin + width; ++i) {
      const double g = pair.golden()[i];
      const double t = pair.target()[i];
      without += (g - t) * (g - t);
      if (g > 0 && t > 0) {
        g_sum += g;
        t_sum += t;
        ++both;
      } else if (g > kSmallest) {
        ++target_only;
      } else if (t > kSmallest) {
        ++golden_only;
      }
    }
    counts.AddRow(target_only, golden_only);
    if (both == 0) continue;
    if (both > 1 && target_only + golden_only > 0) compared += both;
    for (size_t i = begin; i < begin + width; ++i) {
      const double g = pair.golden()[i] / g_sum;
      const double t = pair.target()[i] / t_sum;
      if (!(g > 0 && t > 0)) continue;
      squares += (g - t) * (g - t);
      norm += g * g;
    }
  }
  if (counts.target + counts.golden == 0 || compared < kExaminedElementsMin) {
    return;
  }
  pair.Offer({Kind::kMask,
              counts.Text(),
              {},
              1,
              0,
              std::sqrt(squares / norm),
              std::sqrt(without) / pair.golden_norm()});
}

}  // namespace

void TestProbabilities(Examination& pair) {
  if (!pair.is_finite()) return;
  const Slices rows = RowsOf(pair.shape());
  if (rows.inner < 2 || !AreProbabilities(pair.golden(), rows.inner) ||
      !AreProbabilities(pair.target(), rows.inner)) {
    return;
  }
  TestScale(pair, rows.inner);
  TestMask(pair, rows.inner);
}

}  // namespace msitd::compare::explain
