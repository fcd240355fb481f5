// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/own_scores.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/measure/element_reader.h"
#include "daemon/compare/origin/pair_facts.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Correct results have an error of a few roundings, and that of the argument of
// the exponential.
constexpr double kSoftmaxRoundingsMax = 8;
// Kernels flush smaller results to 0.
constexpr double kSmallestResult = 1e-37;

// Returns whether `row` is the softmax of `scores`. Not-a-number is never one.
bool IsSoftmaxOf(std::span<const double> scores, std::span<const double> row,
                 double roundoff) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  if (!std::isfinite(largest)) return false;
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - largest);
  for (size_t i = 0; i < row.size(); ++i) {
    const double distance = scores[i] - largest;
    const double exact = std::exp(distance) / sum;
    const double allowed =
        (kSoftmaxRoundingsMax - distance) * roundoff * exact + kSmallestResult;
    if (exact > 0 && !(std::fabs(row[i] - exact) <= allowed)) return false;
    if (exact == 0 && row[i] != 0) return false;
  }
  return true;
}

absl::StatusOr<bool> IsOfOwnScores(const LogicalTensor& scores,
                                   const LogicalTensor& result,
                                   std::string_view side,
                                   storage::RunReader& run,
                                   WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const auto given, ReadElements<std::vector<double>>(
                                               scores, side, run, observer));
  MSITD_ASSIGN_OR_RETURN(const auto made, ReadElements<std::vector<double>>(
                                              result, side, run, observer));
  const auto width = static_cast<size_t>(result.shape.back());
  const double roundoff = RoundoffOf(result.dtype);
  for (size_t begin = 0; begin < made.size(); begin += width) {
    if (!IsSoftmaxOf(std::span(given).subspan(begin, width),
                     std::span(made).subspan(begin, width), roundoff)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool IsSoftmax(std::string_view op) {
  std::string name(op.substr(op.rfind('.') + 1));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return name.find("softmax") != std::string::npos &&
         name.find("log") == std::string::npos;
}

absl::StatusOr<bool> AreOfOwnScores(const TensorPair& scores,
                                    const TensorPair& result,
                                    const PairRuns& runs,
                                    WorkObserver& observer) {
  for (const auto side : {&TensorPair::golden, &TensorPair::target}) {
    const LogicalTensor* const given = scores.*side;
    const LogicalTensor* const made = result.*side;
    if (given == nullptr || made == nullptr || !IsReadable(*given) ||
        !IsReadable(*made) || given->shape != made->shape ||
        made->shape.empty() || made->shape.back() == 0 ||
        ElementCount(made->shape) > explain::kExaminedElementsMax) {
      return false;
    }
  }
  MSITD_ASSIGN_OR_RETURN(const bool is_golden,
                         IsOfOwnScores(*scores.golden, *result.golden, "golden",
                                       runs.golden, observer));
  if (!is_golden) return false;
  return IsOfOwnScores(*scores.target, *result.target, "target", runs.target,
                       observer);
}

}  // namespace msitd::compare
