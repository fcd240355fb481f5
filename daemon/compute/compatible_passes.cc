// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/compatible_passes.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "protos/base/rounding.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

// KL(softmax(g) || softmax(t)) of elements that come one by one. Sums are
// relative to e^max of the largest element so far, and rescaled as it rises.
class SoftmaxDivergence {
 public:
  void Add(double t, double g) {
    Raise(t, target_max_, target_sum_, nullptr);
    Raise(g, golden_max_, golden_sum_, &moment_);
    target_sum_ += std::exp(t - target_max_);
    const double weight = std::exp(g - golden_max_);
    golden_sum_ += weight;
    moment_ += weight * (g - t);
  }

  double Value() const {
    const double kl = moment_ / golden_sum_ -
                      (std::log(golden_sum_) + golden_max_) +
                      (std::log(target_sum_) + target_max_);
    return kl < 0 ? 0 : kl;
  }

 private:
  static void Raise(double x, double& max, double& sum, double* moment) {
    if (x <= max) return;
    const double factor = std::exp(max - x);
    sum *= factor;
    if (moment != nullptr) *moment *= factor;
    max = x;
  }

  double target_max_ = -std::numeric_limits<double>::infinity();
  double golden_max_ = -std::numeric_limits<double>::infinity();
  double target_sum_ = 0;
  double golden_sum_ = 0;
  double moment_ = 0;
};

// Element i of a pair is added to lane i % 8. So sums are the same wherever a
// tensor is cut, and a compiler can keep lanes in vectors.
constexpr size_t kMsitLanes = 8;
template <typename T>
using MsitLanes = std::array<T, kMsitLanes>;

double TotalOf(const MsitLanes<double>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

float LargestOf(const MsitLanes<float>& lanes) {
  return *std::max_element(lanes.begin(), lanes.end());
}

// What msit sums up of a pair, in float. It leaves out errors where golden is
// nearly zero.
struct MsitSums {
  MsitLanes<double> tt = {};
  MsitLanes<double> gg = {};
  MsitLanes<double> tg = {};
  MsitLanes<double> noise = {};
  MsitLanes<double> signal = {};
  MsitLanes<double> relative = {};
  MsitLanes<double> absolute = {};
  MsitLanes<float> max_relative = {};
  MsitLanes<float> max_absolute = {};
  // Not 0 in the lane of an element that is not finite: nothing else counts
  // then.
  MsitLanes<uint32_t> non_finite = {};

  void Add(size_t lane, float t, float g) {
    non_finite[lane] |= static_cast<uint32_t>(!(std::fabs(t) <= FLT_MAX)) |
                        static_cast<uint32_t>(!(std::fabs(g) <= FLT_MAX));
    tt[lane] += double{t} * t;
    gg[lane] += double{g} * g;
    tg[lane] += double{t} * g;
    const float d = t - g;
    noise[lane] += d * d;
    signal[lane] += g * g;
    const float quotient = t / g;
    const bool counts = std::fabs(g) > FLT_EPSILON;
    const float relative_error = counts ? std::fabs(quotient - 1) : 0;
    const float absolute_error = counts ? std::fabs(d) : 0;
    max_relative[lane] = std::max(max_relative[lane], relative_error);
    max_absolute[lane] = std::max(max_absolute[lane], absolute_error);
    relative[lane] += relative_error;
    absolute[lane] += absolute_error;
  }
};

// Adds elements whose number is a multiple of the lanes, from lane 0 on.
void AddRows(const double* target, const double* golden, size_t count,
             MsitSums& sums) {
  // A copy, which nothing else can point into.
  MsitSums own = sums;
  for (size_t i = 0; i < count; i += kMsitLanes) {
    for (size_t lane = 0; lane < kMsitLanes; ++lane) {
      own.Add(lane, static_cast<float>(target[i + lane]),
              static_cast<float>(golden[i + lane]));
    }
  }
  sums = own;
}

class MsitPass final : public ElementPass {
 public:
  explicit MsitPass(bool is_complex) : is_complex_(is_complex) {}

  void Add(const ElementBlock& block) override {
    if (is_complex_) {
      for (size_t i = 0; i < block.count; i += 2) AddElement(block, i);
      return;
    }
    size_t i = 0;
    while (i < block.count && count_ % kMsitLanes != 0) AddElement(block, i++);
    const size_t rows = (block.count - i) / kMsitLanes * kMsitLanes;
    AddRows(block.target + i, block.golden + i, rows, sums_);
    count_ += rows;
    for (i += rows; i < block.count; ++i) AddElement(block, i);
  }

  void Finish(ElementMetrics& out) const override {
    const bool is_finite =
        std::all_of(sums_.non_finite.begin(), sums_.non_finite.end(),
                    [](uint32_t bits) { return bits == 0; });
    if (count_ == 0 || !is_finite) return;
    const auto count = static_cast<double>(count_);
    const auto set = [&out](ElementMetric metric, double value) {
      if (!std::isnan(value)) out.Set(metric, value);
    };
    const auto mean = [count](const MsitLanes<double>& lanes) {
      return static_cast<float>(TotalOf(lanes) / count);
    };
    set(ElementMetric::kMsitCosine, Cosine());
    set(ElementMetric::kMsitMaxRel, LargestOf(sums_.max_relative));
    set(ElementMetric::kMsitMeanRel, mean(sums_.relative));
    set(ElementMetric::kMsitMaxAbs, LargestOf(sums_.max_absolute));
    set(ElementMetric::kMsitMeanAbs, mean(sums_.absolute));
    // Real pairs have the metric `kl` for it.
    if (is_complex_) set(ElementMetric::kMsitKl, softmax_.Value());
    const auto signal = static_cast<float>(TotalOf(sums_.signal));
    const auto noise = static_cast<float>(TotalOf(sums_.noise));
    set(ElementMetric::kMsitEuclid,
        std::sqrt(signal) <= FLT_EPSILON ? 0 : std::sqrt(noise / signal));
  }

 private:
  void AddElement(const ElementBlock& block, size_t i) {
    const auto t = static_cast<float>(block.target[i]);
    const auto g = static_cast<float>(block.golden[i]);
    sums_.Add(count_++ % kMsitLanes, t, g);
    if (is_complex_) softmax_.Add(t, g);
  }

  double Cosine() const {
    const double tt = TotalOf(sums_.tt);
    const double gg = TotalOf(sums_.gg);
    if (tt == 0 || gg == 0) return tt == gg ? 1 : 0;
    constexpr double kNormMin = 1e-8;
    return TotalOf(sums_.tg) / std::max(std::sqrt(tt), kNormMin) /
           std::max(std::sqrt(gg), kNormMin);
  }

  const bool is_complex_;
  uint64_t count_ = 0;
  MsitSums sums_;
  SoftmaxDivergence softmax_;
};

// T is the type that numpy promotes both dtypes and float32 to.
template <typename T>
class MsprobePass final : public ElementPass {
 public:
  MsprobePass(DType target, DType golden) : target_(target), golden_(golden) {}

  void Add(const ElementBlock& block) override {
    if (block.count > 0 && count_ == 0) KeepFirst(block);
    // Sums each block on its own first, which keeps rounding errors small.
    double tt = 0;
    double gg = 0;
    double tg = 0;
    double dd = 0;
    const size_t step = IsComplex(golden_) ? 2 : 1;
    for (size_t i = 0; i < block.count; i += step) {
      double t = block.target[i];
      double g = block.golden[i];
      ++count_;
      if (!std::isfinite(t) || !std::isfinite(g)) {
        positions_agree_ = positions_agree_ && std::isnan(t) == std::isnan(g) &&
                           std::isinf(t) == std::isinf(g);
        t = g = 0;
      }
      const double d = t - g;
      tt += t * t;
      gg += g * g;
      tg += t * g;
      dd += d * d;
      max_abs_ = std::max(max_abs_, std::fabs(d));
      AddRatio(Ratio(t, g));
    }
    tt_ += tt;
    gg_ += gg;
    tg_ += tg;
    dd_ += dd;
  }

  void Finish(ElementMetrics& out) const override {
    if (count_ == 0) return;
    if (count_ == 1) {
      // msprobe squeezes it to a scalar, whose NaN or infinity it keeps.
      SetUnlessNan(ElementMetric::kMsprobeMaxAbs, first_difference_, out);
      SetUnlessNan(ElementMetric::kMsprobeMaxRel, first_ratio_, out);
      return;
    }
    if (!positions_agree_) return;
    SetUnlessNan(ElementMetric::kMsprobeCosine, Cosine(), out);
    const auto count = static_cast<double>(count_);
    out.Set(ElementMetric::kMsprobeEuclid, std::sqrt(dd_));
    out.Set(ElementMetric::kMsprobeMaxAbs, max_abs_);
    out.Set(ElementMetric::kMsprobeMaxRel, max_ratio_);
    out.Set(ElementMetric::kMsprobeWithin1Permille,
            static_cast<double>(within_1_) / count);
    out.Set(ElementMetric::kMsprobeWithin5Permille,
            static_cast<double>(within_5_) / count);
  }

 private:
  static void SetUnlessNan(ElementMetric metric, double value,
                           ElementMetrics& out) {
    if (!std::isnan(value)) out.Set(metric, value);
  }

  static T Ratio(double target, double golden) {
    auto t = static_cast<T>(target);
    auto g = static_cast<T>(golden);
    if (g == 0) {
      t += std::numeric_limits<T>::epsilon();
      g += std::numeric_limits<T>::epsilon();
    }
    return std::fabs((t - g) / g);
  }

  void AddRatio(T ratio) {
    // numpy compares in the type of the ratios.
    if (ratio < T{0.001}) ++within_1_;
    if (ratio < T{0.005}) ++within_5_;
    max_ratio_ = std::max(max_ratio_, ratio);
  }

  void KeepFirst(const ElementBlock& block) {
    first_ratio_ = Ratio(block.target[0], block.golden[0]);
    first_difference_ = ScalarDifference(block);
  }

  // |t - g| of two scalars as numpy takes it: in their own type, where integers
  // wrap around.
  double ScalarDifference(const ElementBlock& block) const {
    const double d = block.target[0] - block.golden[0];
    if (IsComplex(golden_)) {
      return std::hypot(d, block.target[1] - block.golden[1]);
    }
    if (golden_ == DType::kBool) return std::fabs(d);
    if (!IsFloatingPoint(golden_)) return WrappedDifference(block);
    if (target_ == golden_ && golden_ == DType::kFloat16) {
      return std::fabs(RoundTo(DType::kFloat16, d));
    }
    return std::fabs(static_cast<T>(d));
  }

  double WrappedDifference(const ElementBlock& block) const {
    const bool is_below = block.target[0] < block.golden[0];
    const double d = is_below ? -block.difference[0] : block.difference[0];
    const double range = std::ldexp(1.0, 8 * ElementBytes(golden_));
    if (golden_ >= DType::kUint8) return d < 0 ? d + range : d;
    const double half = range / 2;
    double wrapped = d;
    if (d >= half) wrapped -= range;
    if (d < -half) wrapped += range;
    // The magnitude of the least integer does not fit, so abs() leaves it as it
    // is.
    return wrapped == -half ? wrapped : std::fabs(wrapped);
  }

  double Cosine() const {
    constexpr double kNormMin = DBL_EPSILON;
    const double t = std::sqrt(tt_);
    const double g = std::sqrt(gg_);
    if (t <= kNormMin && g <= kNormMin) return 1;
    if (t <= kNormMin || g <= kNormMin) return std::nan("");
    return tg_ / (t * g);
  }

  const DType target_;
  const DType golden_;
  uint64_t count_ = 0;
  bool positions_agree_ = true;
  double first_difference_ = 0;
  double first_ratio_ = 0;
  double tt_ = 0;
  double gg_ = 0;
  double tg_ = 0;
  double dd_ = 0;
  double max_abs_ = 0;
  T max_ratio_ = 0;
  uint64_t within_1_ = 0;
  uint64_t within_5_ = 0;
};

}  // namespace

std::unique_ptr<ElementPass> MakeMsitPass(DType golden) {
  return std::make_unique<MsitPass>(IsComplex(golden));
}

std::unique_ptr<ElementPass> MakeMsprobePass(DType target, DType golden) {
  const auto is_float = [](DType dtype) {
    return IsFloatingPoint(dtype) && FitsFloat(dtype);
  };
  if (is_float(target) && is_float(golden)) {
    return std::make_unique<MsprobePass<float>>(target, golden);
  }
  return std::make_unique<MsprobePass<double>>(target, golden);
}

}  // namespace msitd::compute
