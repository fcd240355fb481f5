// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/choice_reader.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/compare/job/element_reader.h"
#include "daemon/compare/judge/basis.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// The first rows show whether golden chose by the scores, also where both runs
// chose the same.
constexpr uint64_t kRowsChecked = 64;

absl::StatusOr<std::vector<int64_t>> AllOf(const LogicalTensor& tensor,
                                           std::string_view side,
                                           storage::RunReader& run,
                                           WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<ElementReader> elements,
                         ElementReader::Open(tensor, side, run, observer));
  std::vector<int64_t> out;
  MSITD_RETURN_IF_ERROR(elements->Next(ElementCount(tensor.shape), &out));
  return out;
}

}  // namespace

double RoundoffOf(const TensorPair& scores) {
  const int digits = std::min(RoundedDigits(scores.golden->dtype),
                              RoundedDigits(scores.target->dtype));
  return std::ldexp(1, -digits);
}

absl::StatusOr<ChoiceOutcome> ReadChoices(const TensorPair& choices,
                                          const TensorPair& scores,
                                          const PairRuns& runs,
                                          WorkObserver& observer) {
  const uint64_t chosen = ElementCount(choices.golden->shape);
  const uint64_t scored = ElementCount(scores.golden->shape);
  if (chosen > kChoicesMax || scored > kScoredMax) {
    return absl::FailedPreconditionError("too many choices");
  }
  const auto width = static_cast<uint64_t>(scores.golden->shape.back());
  const uint64_t per_row = chosen / (scored / width);
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<int64_t> golden,
      AllOf(*choices.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<int64_t> target,
      AllOf(*choices.target, "target", runs.target, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> golden_scores,
      ElementReader::Open(*scores.golden, "golden", runs.golden, observer));
  MSITD_ASSIGN_OR_RETURN(
      const std::unique_ptr<ElementReader> target_scores,
      ElementReader::Open(*scores.target, "target", runs.target, observer));
  ChoiceOutcome out;
  const double roundoff = RoundoffOf(scores);
  std::vector<double> of_golden;
  std::vector<double> of_target;
  uint64_t passed_over = 0;
  for (uint64_t i = 0; i < chosen && !out.is_of_other_scores; i += per_row) {
    const std::span<const int64_t> a(golden.data() + i, per_row);
    const std::span<const int64_t> b(target.data() + i, per_row);
    if (i / per_row >= kRowsChecked &&
        std::equal(a.begin(), a.end(), b.begin())) {
      passed_over += width;
      continue;
    }
    std::vector<double>* const nothing = nullptr;
    MSITD_RETURN_IF_ERROR(golden_scores->Next(passed_over, nothing));
    MSITD_RETURN_IF_ERROR(target_scores->Next(passed_over, nothing));
    passed_over = 0;
    of_golden.clear();
    of_target.clear();
    MSITD_RETURN_IF_ERROR(golden_scores->Next(width, &of_golden));
    MSITD_RETURN_IF_ERROR(target_scores->Next(width, &of_target));
    AddChoices({a, b, of_golden, of_target}, roundoff, out);
  }
  return out;
}

}  // namespace msitd::compare
