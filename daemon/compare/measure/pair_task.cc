// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_task.h"

#include "daemon/compare/measure/pair_source.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/status/status.h"

namespace msitd::compare {

absl::StatusOr<PairMeasurement> MeasurePair(
    const PairTask& task, const PairAhead& ahead, storage::RunReader& target,
    storage::RunReader& golden, PairReader& reader, WorkObserver& observer) {
  const LogicalTensor& targets = *task.pair->target;
  const LogicalTensor& goldens = *task.pair->golden;
  const auto measure = [&](const TensorSource& from_target,
                           const TensorSource& from_golden) {
    return task.any_order.has_value()
               ? reader.MeasureInAnyOrder(from_target, from_golden,
                                          task.request, *task.any_order,
                                          observer)
               : reader.Measure(from_target, from_golden, task.request,
                                observer);
  };
  if (task.is_sampled || !ahead.has_parts()) {
    MSITD_ASSIGN_OR_RETURN(TensorSource from_target,
                           StoredSource(targets, "target", target, observer));
    MSITD_ASSIGN_OR_RETURN(TensorSource from_golden,
                           StoredSource(goldens, "golden", golden, observer));
    from_target.is_sampled = from_golden.is_sampled = task.is_sampled;
    from_target.ahead = ahead.target;
    from_golden.ahead = ahead.golden;
    return measure(from_target, from_golden);
  }
  const auto is_recorded = [](const LogicalTensor& tensor) {
    return tensor.assembly == nullptr && !IsRearranged(tensor);
  };
  if (is_recorded(targets) && is_recorded(goldens) &&
      !task.any_order.has_value()) {
    return PairReader::MeasureAhead(targets, goldens, ahead, task.request,
                                    observer);
  }
  return measure(SourceAhead(targets, "target", target, ahead.target),
                 SourceAhead(goldens, "golden", golden, ahead.golden));
}

}  // namespace msitd::compare
