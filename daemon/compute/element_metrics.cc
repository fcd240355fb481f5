// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/element_metrics.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>
#include <vector>

#include "daemon/compute/element_passes.h"
#include "daemon/compute/kernel/wide_integer.h"
#include "protos/base/check.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

// The smallest norm by which msit divides.
constexpr double kMsitNormMin = 1e-8;

void AddMsprobeOfEqual(DType dtype, const Summary& summary,
                       ElementMetrics& out) {
  using M = ElementMetric;
  const uint64_t count = summary.count / (IsComplex(dtype) ? 2 : 1);
  if (count == 0) return;
  // msprobe keeps the NaN or infinity of a scalar. Both metrics are then
  // undefined.
  if (count == 1 && summary.finite_count() < summary.count) return;
  out.Set(M::kMsprobeMaxAbs, 0);
  out.Set(M::kMsprobeMaxRel, 0);
  if (count == 1) return;
  out.Set(M::kMsprobeEuclid, 0);
  out.Set(M::kMsprobeWithin1Permille, 1);
  out.Set(M::kMsprobeWithin5Permille, 1);
  // With larger norms, the norms of msprobe overflow.
  const double norm = summary.l2_norm();
  if (std::isfinite(norm * norm)) out.Set(M::kMsprobeCosine, 1);
}

}  // namespace

struct ElementAccumulator::State {
  DType target;
  DType golden;
  size_t target_bytes;
  size_t golden_bytes;
  std::vector<std::unique_ptr<ElementPass>> passes;
  bool all_take_bytes;
  double target_block[kElementBlock];
  double golden_block[kElementBlock];
  double difference_block[kElementBlock];

  void TakeDifferences(const std::byte* t, const std::byte* g, size_t count) {
    if (IsWide(target) || IsWide(golden)) {
      WideDifferences(target, t, golden, g, count, difference_block);
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      difference_block[i] = std::fabs(target_block[i] - golden_block[i]);
    }
  }
};

ElementAccumulator::ElementAccumulator(DType target, DType golden,
                                       const ElementRequest& request)
    : state_(std::make_unique<State>()) {
  MSITD_CHECK(IsValid(target) && IsValid(golden));
  MSITD_CHECK(IsComplex(target) == IsComplex(golden));
  state_->target = ComponentOf(target);
  state_->golden = ComponentOf(golden);
  state_->target_bytes = ElementBytes(state_->target);
  state_->golden_bytes = ElementBytes(state_->golden);
  state_->passes = MakePasses(target, golden, request);
  state_->all_take_bytes =
      std::all_of(state_->passes.begin(), state_->passes.end(),
                  [](const auto& pass) { return pass->TakesBytes(); });
}

ElementAccumulator::~ElementAccumulator() = default;
ElementAccumulator::ElementAccumulator(ElementAccumulator&&) noexcept = default;
ElementAccumulator& ElementAccumulator::operator=(
    ElementAccumulator&&) noexcept = default;

void ElementAccumulator::Update(std::span<const std::byte> target,
                                std::span<const std::byte> golden) {
  State& state = *state_;
  size_t count = target.size() / state.target_bytes;
  MSITD_CHECK(count == golden.size() / state.golden_bytes);
  const std::byte* t = target.data();
  const std::byte* g = golden.data();
  while (count > 0) {
    const size_t now = std::min(count, kElementBlock);
    if (!state.all_take_bytes) {
      ToDouble(state.target, t, now, state.target_block);
      ToDouble(state.golden, g, now, state.golden_block);
      state.TakeDifferences(t, g, now);
    }
    const ElementBlock block = {state.target_block,
                                state.golden_block,
                                state.difference_block,
                                t,
                                g,
                                now};
    for (const auto& pass : state.passes) pass->Add(block);
    t += now * state.target_bytes;
    g += now * state.golden_bytes;
    count -= now;
  }
}

ElementMetrics ElementAccumulator::Finish() const {
  ElementMetrics out;
  for (const auto& pass : state_->passes) pass->Finish(out);
  return out;
}

ElementMetrics ElementMetricsOfEqual(DType dtype, const Summary& summary,
                                     const ElementRequest& request) {
  ElementMetrics out;
  const auto asked = [&](MetricSet set) { return (request.sets & set) != 0; };
  const auto zero = [&out](std::initializer_list<ElementMetric> metrics) {
    for (const ElementMetric metric : metrics) out.Set(metric, 0);
  };
  using M = ElementMetric;
  const bool any_finite = summary.finite_count() > 0;
  if (asked(kToleranceSet)) {
    zero({M::kOutlierCount, M::kAtolNeeded, M::kRtolNeeded});
    const uint64_t special = summary.count - summary.finite_count();
    if (request.either && special > 0) {
      out.Set(M::kOutlierCount, static_cast<double>(special));
      out.Set(M::kAtolNeeded, HUGE_VAL);
      out.Set(M::kRtolNeeded, HUGE_VAL);
    }
  }
  if (asked(kUlpSet) && any_finite && InfoOf(ComponentOf(dtype)).is_ordered) {
    zero({M::kMaxUlp, M::kMeanUlp});
  }
  if (asked(kShareSet) && summary.count > 0) {
    out.Set(M::kWithin1Permille, 1);
    out.Set(M::kWithin5Permille, 1);
  }
  if (asked(kPercentileSet) && any_finite) {
    zero({M::kAbsP50, M::kAbsP90, M::kAbsP95, M::kAbsP99});
  }
  if (asked(kBitSet)) zero({M::kBitMismatchCount});
  if (asked(kTopKSet) && summary.count > 0 && !IsComplex(dtype)) {
    out.Set(M::kArgmaxAgreement, 1);
    out.Set(M::kTopKOverlap, 1);
    if (request.row_count > 0) {
      out.Set(M::kTop1MarginFlip, 0);
      const uint64_t undefined =
          summary.nan_count + summary.positive_infinity_count;
      if (undefined == 0) out.Set(M::kRowKlMax, 0);
    }
  }
  if (asked(kPearsonSet) && any_finite && std::isfinite(summary.min) &&
      std::isfinite(summary.max) && summary.min < summary.max) {
    out.Set(M::kPearson, 1);
  }
  if (asked(kMsitSet) && any_finite &&
      summary.finite_count() == summary.count && summary.abs_max() <= FLT_MAX) {
    const double norm = summary.l2_norm();
    const double shown = norm / std::max(norm, kMsitNormMin);
    out.Set(M::kMsitCosine, norm == 0 ? 1 : shown * shown);
    zero({M::kMsitMaxRel, M::kMsitMeanRel, M::kMsitMaxAbs, M::kMsitMeanAbs,
          M::kMsitEuclid});
    if (IsComplex(dtype)) zero({M::kMsitKl});
  }
  if (asked(kMsprobeSet)) AddMsprobeOfEqual(dtype, summary, out);
  return out;
}

}  // namespace msitd::compute
