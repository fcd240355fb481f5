// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/choice_reader.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/compare/measure/element_reader.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {

absl::StatusOr<ChoiceOutcome> ReadChoices(const TensorPair& choices,
                                          const TensorPair& scores,
                                          const PairRuns& runs,
                                          ChoiceBudget& budget,
                                          WorkObserver& observer) {
  const uint64_t chosen = ElementCount(choices.golden->shape);
  const uint64_t scored = ElementCount(scores.golden->shape);
  const auto width = static_cast<uint64_t>(scores.golden->shape.back());
  const uint64_t bytes =
      scores.golden->tensor_bytes + scores.target->tensor_bytes;
  if (width > kScoresWidthMax || bytes > budget.score_bytes) {
    return absl::ResourceExhaustedError("too many scores");
  }
  budget.score_bytes -= bytes;
  const uint64_t per_row = chosen / (scored / width);
  MSITD_ASSIGN_OR_RETURN(const std::vector<int64_t> golden,
                         ReadElements<std::vector<int64_t>>(
                             *choices.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(const std::vector<int64_t> target,
                         ReadElements<std::vector<int64_t>>(
                             *choices.target, "target", runs.target, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> golden_scores,
      ElementReader::Open(*scores.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> target_scores,
      ElementReader::Open(*scores.target, "target", runs.target, observer));
  ChoiceJudge judge;
  std::vector<double> of_golden;
  std::vector<double> of_target;
  for (uint64_t i = 0; i < chosen; i += per_row) {
    of_golden.clear();
    of_target.clear();
    MSITD_RETURN_IF_ERROR(golden_scores->Next(width, &of_golden));
    MSITD_RETURN_IF_ERROR(target_scores->Next(width, &of_target));
    judge.Add({std::span(golden).subspan(i, per_row),
               std::span(target).subspan(i, per_row), of_golden, of_target});
  }
  return judge.Finish();
}

}  // namespace msitd::compare
