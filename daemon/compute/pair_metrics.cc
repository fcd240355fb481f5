// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/pair_metrics.h"

#include <cstring>
#include <limits>

#include "daemon/compute/element.h"
#include "daemon/compute/kernels.h"
#include "daemon/compute/pair_finish.h"
#include "daemon/compute/pair_state.h"
#include "protos/base/check.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr MetricInfo kInfos[kMetricCount] = {
    {"cosine", true},
    {"max_abs", false},
    {"mean_abs", false},
    {"max_rel", false},
    {"mean_rel", false},
    {"rmse", false},
    {"nl2", false},
    {"kl", false},
    {"sqnr_db", true},
    {"mismatch_count", false},
    {"nan_mismatch_count", false},
    {"inf_mismatch_count", false},
    {"rel", false},
    {"l2_distance", false},
};

// Returns how many elements differ and round to the same double, which is how
// the kernels see them. Only integers of 64 bits do.
template <typename Int>
uint64_t CountHiddenMismatches(std::span<const std::byte> target,
                               std::span<const std::byte> golden) {
  uint64_t out = 0;
  for (size_t at = 0; at < target.size(); at += sizeof(Int)) {
    Int t;
    Int g;
    std::memcpy(&t, target.data() + at, sizeof(t));
    std::memcpy(&g, golden.data() + at, sizeof(g));
    if (t != g && static_cast<double>(t) == static_cast<double>(g)) ++out;
  }
  return out;
}

}  // namespace

const MetricInfo& InfoOf(Metric metric) {
  return kInfos[static_cast<int>(metric)];
}

std::optional<Metric> ParseMetric(std::string_view name) {
  for (int i = 0; i < kMetricCount; ++i) {
    if (kInfos[i].name == name) return static_cast<Metric>(i);
  }
  return std::nullopt;
}

struct PairAccumulator::State {
  size_t components;
  size_t target_bytes;
  size_t golden_bytes;
  // Of both sides, if it is the same; else unspecified.
  DType dtype;
  PairState pair;
};

PairAccumulator::PairAccumulator(DType target, DType golden) {
  MSITD_CHECK(IsValid(target) && IsValid(golden));
  MSITD_CHECK(IsComplex(target) == IsComplex(golden));
  state_ = std::make_unique<State>(State{
      IsComplex(target) ? size_t{2} : size_t{1}, ElementBytes(target),
      ElementBytes(golden), target == golden ? target : DType::kUnspecified,
      PairState(ComponentOf(target), ComponentOf(golden))});
}

PairAccumulator::~PairAccumulator() = default;
PairAccumulator::PairAccumulator(PairAccumulator&&) noexcept = default;
PairAccumulator& PairAccumulator::operator=(PairAccumulator&&) noexcept =
    default;

void PairAccumulator::Update(std::span<const std::byte> target,
                             std::span<const std::byte> golden) {
  MSITD_CHECK(target.size() % state_->target_bytes == 0);
  MSITD_CHECK(golden.size() % state_->golden_bytes == 0);
  const size_t count = target.size() / state_->target_bytes;
  MSITD_CHECK(count == golden.size() / state_->golden_bytes);
  ChosenKernels().pair(target.data(), golden.data(), count * state_->components,
                       state_->pair);
  if (state_->dtype == DType::kInt64) {
    state_->pair.mismatch_count +=
        CountHiddenMismatches<int64_t>(target, golden);
  } else if (state_->dtype == DType::kUint64) {
    state_->pair.mismatch_count +=
        CountHiddenMismatches<uint64_t>(target, golden);
  }
}

PairMetrics PairAccumulator::Finish() const { return ToMetrics(state_->pair); }

PairMetrics MetricsOfEqual(uint64_t count, uint64_t finite_count) {
  PairMetrics out;
  const auto set = [&out](Metric metric, double value) {
    out.values[static_cast<int>(metric)] = value;
  };
  for (const Metric metric : {Metric::kMismatchCount, Metric::kNanMismatchCount,
                              Metric::kInfMismatchCount}) {
    set(metric, 0);
  }
  if (finite_count == 0) return out;
  set(Metric::kCosine, 1);
  for (const Metric metric :
       {Metric::kMaxAbs, Metric::kMeanAbs, Metric::kMaxRel, Metric::kMeanRel,
        Metric::kRmse, Metric::kNl2, Metric::kRel, Metric::kL2Distance}) {
    set(metric, 0);
  }
  set(Metric::kSqnrDb, kInfinity);
  if (finite_count == count) set(Metric::kKl, 0);
  return out;
}

}  // namespace msitd::compute
