// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/compatible_passes.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "daemon/compute/kernel/msit_kernels.h"
#include "daemon/compute/softmax_divergence.h"
#include "protos/base/rounding.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

double TotalOf(const MsitLanes<double>& lanes) {
  return std::accumulate(lanes.lane.begin(), lanes.lane.end(), 0.0);
}

float LargestOf(const MsitLanes<float>& lanes) {
  return *std::max_element(lanes.lane.begin(), lanes.lane.end());
}

// One side of a block as floats. Elements that are not floats are rounded into
// a buffer.
class FloatSide {
 public:
  FloatSide(bool is_float, const double* elements, const std::byte* bytes,
            size_t count) {
    if (is_float) {
      bytes_ = bytes;
      return;
    }
    std::transform(elements, elements + count, rounded_,
                   [](double x) { return static_cast<float>(x); });
    bytes_ = reinterpret_cast<const std::byte*>(rounded_);
  }

  float at(size_t i) const {
    float x = 0;
    std::memcpy(&x, from(i), sizeof x);
    return x;
  }

  const std::byte* from(size_t i) const { return bytes_ + i * sizeof(float); }

 private:
  const std::byte* bytes_;
  float rounded_[kElementBlock];
};

class MsitPass final : public ElementPass {
 public:
  MsitPass(DType target, DType golden)
      : is_complex_(IsComplex(golden)),
        target_is_float_(ComponentOf(target) == DType::kFloat32),
        golden_is_float_(ComponentOf(golden) == DType::kFloat32) {}

  bool TakesBytes() const override {
    return target_is_float_ && golden_is_float_;
  }

  void Add(const ElementBlock& block) override {
    const FloatSide target(target_is_float_, block.target, block.target_bytes,
                           block.count);
    const FloatSide golden(golden_is_float_, block.golden, block.golden_bytes,
                           block.count);
    if (is_complex_) {
      for (size_t i = 0; i < block.count; i += 2) {
        AddElement(target.at(i), golden.at(i));
        softmax_.Add(target.at(i), golden.at(i));
      }
      return;
    }
    size_t i = 0;
    while (i < block.count && count_ % kMsitLanes != 0) {
      AddElement(target.at(i), golden.at(i));
      ++i;
    }
    const size_t whole = (block.count - i) / kMsitLanes * kMsitLanes;
    kernel_(target.from(i), golden.from(i), whole, sums_);
    count_ += whole;
    for (i += whole; i < block.count; ++i) {
      AddElement(target.at(i), golden.at(i));
    }
  }

  void Finish(ElementMetrics& out) const override {
    if (count_ == 0 || sums_.has_non_finite) return;
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
    // Real pairs have the metric `kl` instead.
    if (is_complex_) set(ElementMetric::kMsitKl, softmax_.Value());
    const auto signal = static_cast<float>(TotalOf(sums_.signal));
    const auto noise = static_cast<float>(TotalOf(sums_.noise));
    set(ElementMetric::kMsitEuclid,
        std::sqrt(signal) <= FLT_EPSILON ? 0 : std::sqrt(noise / signal));
  }

 private:
  void AddElement(float t, float g) { sums_.Add(count_++ % kMsitLanes, t, g); }

  double Cosine() const {
    const double tt = TotalOf(sums_.tt);
    const double gg = TotalOf(sums_.gg);
    if (tt == 0 || gg == 0) return tt == gg ? 1 : 0;
    constexpr double kNormMin = 1e-8;
    return TotalOf(sums_.tg) / std::max(std::sqrt(tt), kNormMin) /
           std::max(std::sqrt(gg), kNormMin);
  }

  const bool is_complex_;
  const bool target_is_float_;
  const bool golden_is_float_;
  const MsitKernel kernel_ = ChosenMsitKernel();
  uint64_t count_ = 0;
  MsitSums sums_;
  SoftmaxDivergence softmax_;
};

// T is the type to which numpy promotes both dtypes and float32.
template <typename T>
class MsprobePass final : public ElementPass {
 public:
  MsprobePass(DType target, DType golden) : target_(target), golden_(golden) {}

  void Add(const ElementBlock& block) override {
    if (block.count > 0 && count_ == 0) KeepFirst(block);
    // Each block is summed on its own first, which keeps rounding errors small.
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
      // msprobe squeezes a single element to a scalar, and keeps its NaN or
      // infinity.
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

  // Returns |t - g| of two scalars as numpy computes it: in their own type, in
  // which integers wrap around.
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
    // The magnitude of the smallest integer does not fit, so abs() returns it
    // unchanged.
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

std::unique_ptr<ElementPass> MakeMsitPass(DType target, DType golden) {
  return std::make_unique<MsitPass>(target, golden);
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
