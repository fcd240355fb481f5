// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/pair_metrics.h"

#include <limits>

#include "daemon/compute/kernel/pair_kernels.h"
#include "daemon/compute/kernel/pair_state.h"
#include "daemon/compute/kernel/wide_integer.h"
#include "daemon/compute/pair_finish.h"
#include "protos/base/check.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

struct PairAccumulator::State {
  size_t components;
  size_t target_bytes;
  size_t golden_bytes;
  PairState pair;
};

PairAccumulator::PairAccumulator(DType target, DType golden) {
  MSITD_CHECK(IsValid(target) && IsValid(golden));
  MSITD_CHECK(IsComplex(target) == IsComplex(golden));
  state_ = std::make_unique<State>(
      State{IsComplex(target) ? size_t{2} : size_t{1}, ElementBytes(target),
            ElementBytes(golden),
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
  const PairKernel kernel = ChosenPairKernel();
  PairState& pair = state_->pair;
  if (IsWide(pair.target) || IsWide(pair.golden)) {
    AddWidePairs(kernel, target.data(), golden.data(), count, pair);
  } else {
    kernel(target.data(), golden.data(), count * state_->components, pair);
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
