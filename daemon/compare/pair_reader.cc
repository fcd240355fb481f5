// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/pair_reader.h"

#include <algorithm>
#include <memory>

#include "protos/base/dtype.h"
#include "protos/status/status.h"

namespace msitd::compare {

absl::StatusOr<PairMeasurement> PairReader::Measure(
    const TensorSource& target, const TensorSource& golden,
    const compute::ElementRequest& request, ComparisonObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<TensorStream> targets,
      TensorStream::Open(target, store_, observer, target_buffers_));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<TensorStream> goldens,
      TensorStream::Open(golden, store_, observer, golden_buffers_));
  uint64_t elements = targets->element_count();
  if (elements != goldens->element_count()) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "target and golden tensor: {} of {} and {} of {} are not "
                      "equally many elements",
                      elements, DTypeName(targets->dtype()),
                      goldens->element_count(), DTypeName(goldens->dtype()));
  }
  compute::PairAccumulator accumulator(targets->dtype(), goldens->dtype());
  std::optional<compute::ElementAccumulator> element_accumulator;
  if (request.sets != 0) {
    element_accumulator.emplace(targets->dtype(), goldens->dtype(), request);
  }
  while (elements > 0) {
    if (observer.IsCancelled()) return absl::CancelledError("cancelled");
    MSITD_RETURN_IF_ERROR(targets->Fill());
    MSITD_RETURN_IF_ERROR(goldens->Fill());
    const uint64_t step =
        std::min(targets->rest_count(), goldens->rest_count());
    const auto target_piece = targets->Take(step);
    const auto golden_piece = goldens->Take(step);
    accumulator.Update(target_piece, golden_piece);
    if (element_accumulator.has_value()) {
      element_accumulator->Update(target_piece, golden_piece);
    }
    elements -= step;
  }
  PairMeasurement out;
  out.metrics = accumulator.Finish();
  if (element_accumulator.has_value()) {
    out.elements = element_accumulator->Finish();
  }
  if (target.grid.is_sum || target.is_sampled) {
    out.target_summary = targets->summary();
  }
  if (golden.grid.is_sum || golden.is_sampled) {
    out.golden_summary = goldens->summary();
  }
  return out;
}

}  // namespace msitd::compare
