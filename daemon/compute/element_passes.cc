// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/element_passes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "daemon/compute/compatible_passes.h"
#include "daemon/compute/logit_pass.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool BothFinite(double t, double g) {
  return std::isfinite(t) && std::isfinite(g);
}

// Returns true if the values are equal as numbers, or both NaN.
bool SameValue(double t, double g) {
  return t == g || (std::isnan(t) && std::isnan(g));
}

// Increases `x` in small steps, to compensate for rounding, until
// `suffices(x)`.
template <typename Suffices>
double RaiseUntil(double x, Suffices suffices) {
  double step = std::nextafter(x, kInfinity) - x;
  for (; !suffices(x); step *= 2) x += step;
  return x;
}

class TolerancePass final : public ElementPass {
 public:
  TolerancePass(const ElementRequest& request, bool is_complex)
      : rtol_(request.rtol),
        atol_(request.atol),
        either_(request.either),
        is_complex_(is_complex) {}

  void Add(const ElementBlock& block) override {
    const size_t step = is_complex_ ? 2 : 1;
    for (size_t i = 0; i < block.count; i += step) {
      if (!AllFinite(block, i)) {
        if (!either_ && AllSame(block, i)) continue;
        ++outliers_;
        atol_needed_ = rtol_needed_ = kInfinity;
        continue;
      }
      double d = Magnitude(block.difference + i);
      if (d == 0) continue;
      double g = Magnitude(block.golden + i);
      double unit = 1;
      // The modulus of finite components may exceed the range of double. Half
      // of it does not.
      if (std::isinf(g)) {
        unit = 0.5;
        g = std::hypot(block.golden[i] * unit, block.golden[i + 1] * unit);
        d = std::hypot(block.target[i] * unit - block.golden[i] * unit,
                       block.target[i + 1] * unit - block.golden[i + 1] * unit);
      }
      either_ ? AddEither(d, g, unit) : AddSum(d, g, unit);
    }
  }

  void Finish(ElementMetrics& out) const override {
    out.Set(ElementMetric::kOutlierCount, static_cast<double>(outliers_));
    out.Set(ElementMetric::kAtolNeeded, atol_needed_);
    out.Set(ElementMetric::kRtolNeeded, rtol_needed_);
  }

 private:
  bool AllFinite(const ElementBlock& block, size_t i) const {
    return BothFinite(block.target[i], block.golden[i]) &&
           (!is_complex_ ||
            BothFinite(block.target[i + 1], block.golden[i + 1]));
  }

  bool AllSame(const ElementBlock& block, size_t i) const {
    return SameValue(block.target[i], block.golden[i]) &&
           (!is_complex_ ||
            SameValue(block.target[i + 1], block.golden[i + 1]));
  }

  double Magnitude(const double* element) const {
    return is_complex_ ? std::hypot(element[0], element[1])
                       : std::fabs(element[0]);
  }

  // `d` and `g` are the moduli multiplied by `unit`.
  void AddSum(double d, double g, double unit) {
    const double own_atol = atol_ * unit;
    if (d > own_atol + rtol_ * g) ++outliers_;
    if (d > atol_needed_ * unit + rtol_ * g) {
      atol_needed_ =
          RaiseUntil(std::max(atol_needed_, (d - rtol_ * g) / unit),
                     [&](double atol) { return d <= atol * unit + rtol_ * g; });
    }
    if (d > own_atol && g == 0) rtol_needed_ = kInfinity;
    if (d > own_atol + rtol_needed_ * g) {
      rtol_needed_ =
          RaiseUntil(std::max(rtol_needed_, (d - own_atol) / g),
                     [&](double rtol) { return d <= own_atol + rtol * g; });
    }
  }

  void AddEither(double d, double g, double unit) {
    const bool over_atol = d > atol_ * unit;
    const bool over_rtol = d > rtol_ * g;
    if (over_atol && over_rtol) ++outliers_;
    if (over_rtol) atol_needed_ = std::max(atol_needed_, d / unit);
    if (!over_atol) return;
    if (g == 0) rtol_needed_ = kInfinity;
    if (d > rtol_needed_ * g) {
      rtol_needed_ = RaiseUntil(std::max(rtol_needed_, d / g),
                                [&](double rtol) { return d <= rtol * g; });
    }
  }

  const double rtol_;
  const double atol_;
  const bool either_;
  const bool is_complex_;
  uint64_t outliers_ = 0;
  double atol_needed_ = 0;
  double rtol_needed_ = 0;
};

// Elements must consist of a sign and a magnitude. `Unsigned` must have their
// width.
template <typename Unsigned>
class UlpPass final : public ElementPass {
 public:
  void Add(const ElementBlock& block) override {
    for (size_t i = 0; i < block.count; ++i) {
      if (!BothFinite(block.target[i], block.golden[i])) continue;
      const uint64_t distance =
          Distance(Ordered(block.target_bytes + i * sizeof(Unsigned)),
                   Ordered(block.golden_bytes + i * sizeof(Unsigned)));
      max_ = std::max(max_, distance);
      sum_ += static_cast<double>(distance);
      ++count_;
    }
  }

  void Finish(ElementMetrics& out) const override {
    if (count_ == 0) return;
    out.Set(ElementMetric::kMaxUlp, static_cast<double>(max_));
    out.Set(ElementMetric::kMeanUlp, sum_ / static_cast<double>(count_));
  }

 private:
  // Maps neighboring numbers to neighboring integers, and zeros of either sign
  // to 0.
  static int64_t Ordered(const std::byte* bytes) {
    Unsigned bits;
    std::memcpy(&bits, bytes, sizeof(bits));
    constexpr Unsigned kMagnitude = static_cast<Unsigned>(~Unsigned{0}) >> 1;
    const auto magnitude = static_cast<int64_t>(bits & kMagnitude);
    return bits > kMagnitude ? -magnitude : magnitude;
  }

  static uint64_t Distance(int64_t a, int64_t b) {
    return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                 : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
  }

  uint64_t max_ = 0;
  double sum_ = 0;
  uint64_t count_ = 0;
};

class SharePass final : public ElementPass {
 public:
  void Add(const ElementBlock& block) override {
    for (size_t i = 0; i < block.count; ++i) {
      const double t = block.target[i];
      const double g = block.golden[i];
      ++count_;
      if (SameValue(t, g)) {
        ++within_1_;
        ++within_5_;
      } else if (BothFinite(t, g)) {
        const double ratio = std::fabs(t - g) / std::fabs(g);
        if (ratio < 0.001) ++within_1_;
        if (ratio < 0.005) ++within_5_;
      }
    }
  }

  void Finish(ElementMetrics& out) const override {
    if (count_ == 0) return;
    const auto count = static_cast<double>(count_);
    out.Set(ElementMetric::kWithin1Permille,
            static_cast<double>(within_1_) / count);
    out.Set(ElementMetric::kWithin5Permille,
            static_cast<double>(within_5_) / count);
  }

 private:
  uint64_t count_ = 0;
  uint64_t within_1_ = 0;
  uint64_t within_5_ = 0;
};

// Counts |t - g| in buckets. A bucket is 2^-6 of its lower end wide, so its
// middle is within 2^-7 of every value in it. The number of a bucket consists
// of the exponent and the first six bits of the mantissa.
class PercentilePass final : public ElementPass {
 public:
  PercentilePass() : buckets_(kBuckets) {}

  void Add(const ElementBlock& block) override {
    for (size_t i = 0; i < block.count; ++i) {
      if (!BothFinite(block.target[i], block.golden[i])) continue;
      const double d = block.difference[i];
      ++buckets_[std::bit_cast<uint64_t>(d) >> kDropped];
      max_ = std::max(max_, d);
      ++count_;
    }
  }

  void Finish(ElementMetrics& out) const override {
    if (count_ == 0) return;
    out.Set(ElementMetric::kAbsP50, Quantile(0.50));
    out.Set(ElementMetric::kAbsP90, Quantile(0.90));
    out.Set(ElementMetric::kAbsP95, Quantile(0.95));
    out.Set(ElementMetric::kAbsP99, Quantile(0.99));
  }

 private:
  static constexpr int kDropped = 52 - 6;
  static constexpr size_t kBuckets = size_t{1} << (63 - kDropped);

  // Returns the smallest value that at least this share of all values does not
  // exceed.
  double Quantile(double share) const {
    const double wanted = std::ceil(share * static_cast<double>(count_));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (static_cast<double>(seen) < wanted) continue;
      if (i == 0) return 0;
      const uint64_t low = static_cast<uint64_t>(i) << kDropped;
      const uint64_t half = uint64_t{1} << (kDropped - 1);
      const uint64_t infinity = std::bit_cast<uint64_t>(kInfinity);
      if (low + half > infinity) return kInfinity;
      return std::min(std::bit_cast<double>(low + half), max_);
    }
    return max_;
  }

  std::vector<uint64_t> buckets_;
  double max_ = 0;
  uint64_t count_ = 0;
};

// Computes the co-moments of each block about the means of the block, and
// merges them. This is stable however far the means are from zero.
class PearsonPass final : public ElementPass {
 public:
  void Add(const ElementBlock& block) override {
    double count = 0;
    double t_sum = 0;
    double g_sum = 0;
    for (size_t i = 0; i < block.count; ++i) {
      if (!BothFinite(block.target[i], block.golden[i])) continue;
      t_sum += block.target[i];
      g_sum += block.golden[i];
      ++count;
    }
    if (count == 0) return;
    const double t_mean = t_sum / count;
    const double g_mean = g_sum / count;
    double tt = 0;
    double gg = 0;
    double tg = 0;
    for (size_t i = 0; i < block.count; ++i) {
      if (!BothFinite(block.target[i], block.golden[i])) continue;
      const double t = block.target[i] - t_mean;
      const double g = block.golden[i] - g_mean;
      tt += t * t;
      gg += g * g;
      tg += t * g;
    }
    const double total = count_ + count;
    const double t_shift = t_mean - t_mean_;
    const double g_shift = g_mean - g_mean_;
    const double weight = count_ * count / total;
    tt_ += tt + t_shift * t_shift * weight;
    gg_ += gg + g_shift * g_shift * weight;
    tg_ += tg + t_shift * g_shift * weight;
    t_mean_ += t_shift * count / total;
    g_mean_ += g_shift * count / total;
    count_ = total;
  }

  void Finish(ElementMetrics& out) const override {
    // Smaller sums of squares have lost some or all of their digits.
    constexpr double kSquaresMin = 0x1p-900;
    const double norms = std::sqrt(tt_) * std::sqrt(gg_);
    if (tt_ < kSquaresMin || gg_ < kSquaresMin || !std::isfinite(norms) ||
        std::isnan(tg_)) {
      return;
    }
    out.Set(ElementMetric::kPearson, std::clamp(tg_ / norms, -1.0, 1.0));
  }

 private:
  double count_ = 0;
  double t_mean_ = 0;
  double g_mean_ = 0;
  double tt_ = 0;
  double gg_ = 0;
  double tg_ = 0;
};

class BitPass final : public ElementPass {
 public:
  // An element has `parts` components of `bytes` bytes.
  BitPass(size_t bytes, size_t parts) : bytes_(bytes), parts_(parts) {}

  void Add(const ElementBlock& block) override {
    const size_t step = bytes_ * parts_;
    const size_t end = block.count * bytes_;
    if (std::memcmp(block.target_bytes, block.golden_bytes, end) == 0) return;
    for (size_t at = 0; at < end; at += step) {
      if (std::memcmp(block.target_bytes + at, block.golden_bytes + at, step) !=
          0) {
        ++count_;
      }
    }
  }

  void Finish(ElementMetrics& out) const override {
    out.Set(ElementMetric::kBitMismatchCount, static_cast<double>(count_));
  }

 private:
  const size_t bytes_;
  const size_t parts_;
  uint64_t count_ = 0;
};

// The largest elements of one row, in descending order. Equal elements are in
// the order of their positions. NaN is larger than any number.
class Leaders {
 public:
  explicit Leaders(int capacity) : capacity_(capacity) {}

  void Offer(double value, uint64_t index) {
    if (size_ == capacity_ && !Larger(value, value_[size_ - 1])) return;
    if (size_ < capacity_) ++size_;
    int at = size_ - 1;
    for (; at > 0 && Larger(value, value_[at - 1]); --at) {
      value_[at] = value_[at - 1];
      index_[at] = index_[at - 1];
    }
    value_[at] = value;
    index_[at] = index;
  }

  uint64_t first() const { return index_[0]; }

  double Overlap(const Leaders& other) const {
    int shared = 0;
    for (int i = 0; i < size_; ++i) {
      const auto* end = other.index_ + other.size_;
      if (std::find(other.index_, end, index_[i]) != end) ++shared;
    }
    return static_cast<double>(shared) / size_;
  }

  void Clear() { size_ = 0; }

 private:
  static bool Larger(double a, double b) {
    return a > b || (std::isnan(a) && !std::isnan(b));
  }

  const int capacity_;
  int size_ = 0;
  double value_[kTopKMax];
  uint64_t index_[kTopKMax];
};

class TopKPass final : public ElementPass {
 public:
  explicit TopKPass(const ElementRequest& request)
      : row_elements_(std::max<uint64_t>(request.row_elements, 1)),
        target_(std::clamp(request.top_k, 1, kTopKMax)),
        golden_(std::clamp(request.top_k, 1, kTopKMax)) {}

  void Add(const ElementBlock& block) override {
    for (size_t i = 0; i < block.count; ++i) {
      target_.Offer(block.target[i], at_);
      golden_.Offer(block.golden[i], at_);
      if (++at_ == row_elements_) EndRow();
    }
  }

  void Finish(ElementMetrics& out) const override {
    if (rows_ == 0) return;
    out.Set(ElementMetric::kArgmaxAgreement, agreements_ / rows_);
    out.Set(ElementMetric::kTopKOverlap, overlap_ / rows_);
  }

 private:
  void EndRow() {
    ++rows_;
    if (target_.first() == golden_.first()) ++agreements_;
    overlap_ += target_.Overlap(golden_);
    target_.Clear();
    golden_.Clear();
    at_ = 0;
  }

  const uint64_t row_elements_;
  uint64_t at_ = 0;
  Leaders target_;
  Leaders golden_;
  double rows_ = 0;
  double agreements_ = 0;
  double overlap_ = 0;
};

std::unique_ptr<ElementPass> MakeUlpPass(DType component) {
  switch (ElementBytes(component)) {
    case 1:
      return std::make_unique<UlpPass<uint8_t>>();
    case 2:
      return std::make_unique<UlpPass<uint16_t>>();
    case 4:
      return std::make_unique<UlpPass<uint32_t>>();
    default:
      return std::make_unique<UlpPass<uint64_t>>();
  }
}

}  // namespace

std::vector<std::unique_ptr<ElementPass>> MakePasses(
    DType target, DType golden, const ElementRequest& request) {
  std::vector<std::unique_ptr<ElementPass>> out;
  const DType component = ComponentOf(golden);
  const auto asked = [&](MetricSet set) { return (request.sets & set) != 0; };
  if (asked(kToleranceSet)) {
    out.push_back(std::make_unique<TolerancePass>(request, IsComplex(golden)));
  }
  if (asked(kUlpSet) && target == golden && InfoOf(component).is_ordered) {
    out.push_back(MakeUlpPass(component));
  }
  if (asked(kShareSet)) out.push_back(std::make_unique<SharePass>());
  if (asked(kPercentileSet)) out.push_back(std::make_unique<PercentilePass>());
  if (asked(kPearsonSet)) out.push_back(std::make_unique<PearsonPass>());
  if (asked(kBitSet) && target == golden) {
    out.push_back(std::make_unique<BitPass>(ElementBytes(component),
                                            IsComplex(golden) ? 2 : 1));
  }
  if (asked(kTopKSet) && !IsComplex(golden)) {
    out.push_back(std::make_unique<TopKPass>(request));
    if (request.row_count > 0) out.push_back(MakeLogitPass(request));
  }
  if (asked(kMsitSet)) out.push_back(MakeMsitPass(target, golden));
  if (asked(kMsprobeSet)) out.push_back(MakeMsprobePass(target, golden));
  return out;
}

}  // namespace msitd::compute
