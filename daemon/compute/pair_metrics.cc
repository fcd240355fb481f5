// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/pair_metrics.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "daemon/compute/kernel/pair_kernels.h"
#include "daemon/compute/kernel/pair_state.h"
#include "daemon/compute/kernel/row_kernels.h"
#include "daemon/compute/kernel/wide_integer.h"
#include "daemon/compute/pair_finish.h"
#include "daemon/compute/row_errors.h"
#include "protos/base/check.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Number of elements that are still in a close cache when their rows are
// summed.
constexpr size_t kStretch = PairAccumulator::kPairBlockElements;

uint64_t KeptRows(const RowShape& rows) {
  return rows.row_count <= kRowsMax ? rows.row_count : 0;
}

uint64_t KeptChannels(const RowShape& rows) {
  return rows.row_elements <= kChannelsMax ? rows.row_elements : 0;
}

bool HasSingleChannels(const RowShape& rows) {
  return rows.row_count == 1 && rows.is_batch_of_one &&
         rows.row_elements >= kSingleChannelsMin && KeptChannels(rows) > 0;
}

bool HasSums(const RowShape& rows) {
  return HasSingleChannels(rows) ||
         (rows.row_count > 1 && rows.row_elements > 0 &&
          (KeptRows(rows) > 0 || KeptChannels(rows) > 0));
}

}  // namespace

struct PairAccumulator::State {
  size_t components;
  size_t target_bytes;
  size_t golden_bytes;
  PairState pair;
  RowShape shape;
  // nullopt if no sums of rows are kept.
  std::optional<RowState> rows = std::nullopt;

  void Add(const std::byte* target, const std::byte* golden, size_t count) {
    const PairKernel kernel = ChosenPairKernel();
    if (IsWide(pair.target) || IsWide(pair.golden)) {
      AddWidePairs(kernel, target, golden, count, pair);
    } else {
      kernel(target, golden, count, pair);
    }
  }

  // Adds the pairs to the sums of the whole tensor and of rows, one stretch at
  // a time, so that the second pass reads from the cache.
  void AddByStretches(const std::byte* target, const std::byte* golden,
                      size_t count) {
    while (count > 0) {
      const size_t now = std::min(count, kStretch);
      pair.arithmetic = Arithmetic::kFloat;
      Add(target, golden, now);
      AddRows(ChosenRowKernel(), target, golden, now, pair.arithmetic, *rows);
      target += now * ElementBytes(pair.target);
      golden += now * ElementBytes(pair.golden);
      count -= now;
    }
  }
};

PairAccumulator::PairAccumulator(DType target, DType golden,
                                 const RowShape& rows) {
  MSITD_CHECK(IsValid(target) && IsValid(golden));
  MSITD_CHECK(IsComplex(target) == IsComplex(golden));
  state_ = std::make_unique<State>(
      State{IsComplex(target) ? size_t{2} : size_t{1}, ElementBytes(target),
            ElementBytes(golden),
            PairState(ComponentOf(target), ComponentOf(golden)), rows});
  if (!HasSums(rows)) return;
  const uint64_t components = state_->components;
  state_->rows.emplace(ComponentOf(target), ComponentOf(golden),
                       components * rows.row_elements, KeptRows(rows),
                       components * KeptChannels(rows));
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
  const size_t components = count * state_->components;
  if (state_->rows.has_value()) {
    state_->AddByStretches(target.data(), golden.data(), components);
  } else {
    state_->Add(target.data(), golden.data(), components);
  }
}

PairMetrics PairAccumulator::Finish() const {
  PairMetrics out = ToMetrics(state_->pair);
  AddRowErrors(state_->shape, state_->pair,
               state_->rows.has_value() ? &*state_->rows : nullptr, out);
  return out;
}

PairMetrics MetricsOfEqual(uint64_t count, uint64_t finite_count,
                           const RowShape& rows) {
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
  const bool has_rows =
      rows.row_count == 1 || (HasSums(rows) && KeptRows(rows) > 0);
  if (has_rows) {
    set(Metric::kRowNl2Max, 0);
    set(Metric::kRowNl2P50, 0);
  }
  if (HasSums(rows) && KeptChannels(rows) > 0) {
    if (rows.row_count > 1) set(Metric::kChannelNl2Max, 0);
    set(Metric::kChannelNl2P50, 0);
  }
  if (finite_count == count) set(Metric::kKl, 0);
  return out;
}

}  // namespace msitd::compute
