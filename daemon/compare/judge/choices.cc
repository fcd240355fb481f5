// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/choices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace msitd::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool AreWithin(std::span<const int64_t> chosen, size_t width) {
  return std::all_of(chosen.begin(), chosen.end(), [width](int64_t choice) {
    return choice >= 0 && static_cast<size_t>(choice) < width;
  });
}

double LargestFinite(std::span<const double> scores) {
  double out = 0;
  for (const double score : scores) {
    if (std::isfinite(score)) out = std::max(out, std::fabs(score));
  }
  return out;
}

// True if nothing that was left is larger than what was chosen, and something
// is smaller: equal scores choose nothing.
bool IsChosenBy(std::span<const int64_t> chosen, std::span<const double> scores,
                double slack) {
  double least = kInfinity;
  std::vector<bool> is_chosen(scores.size());
  for (const int64_t choice : chosen) {
    if (is_chosen[choice]) return false;
    is_chosen[choice] = true;
    if (std::isnan(scores[choice])) return false;
    least = std::min(least, scores[choice]);
  }
  bool is_any_smaller = false;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (is_chosen[i]) continue;
    if (!(scores[i] <= least + slack)) return false;
    is_any_smaller = is_any_smaller || scores[i] < least - slack;
  }
  return is_any_smaller || chosen.size() == scores.size();
}

bool AreSorted(std::span<const int64_t> chosen, std::span<const double> scores,
               double slack) {
  for (size_t i = 1; i < chosen.size(); ++i) {
    if (scores[chosen[i]] > scores[chosen[i - 1]] + slack) return false;
  }
  return true;
}

std::vector<int64_t> Sorted(std::span<const int64_t> chosen,
                            std::span<const double> scores) {
  std::vector<int64_t> out(chosen.begin(), chosen.end());
  std::stable_sort(out.begin(), out.end(), [scores](int64_t a, int64_t b) {
    return scores[a] > scores[b];
  });
  return out;
}

double LargestDifference(const ChoiceRow& row) {
  double out = 0;
  for (size_t i = 0; i < row.golden_scores.size(); ++i) {
    const double golden = row.golden_scores[i];
    const double target = row.target_scores[i];
    if (golden == target) continue;
    const double difference = std::fabs(target - golden);
    out = std::isfinite(difference) ? std::max(out, difference) : kInfinity;
  }
  return out;
}

}  // namespace

void AddChoices(const ChoiceRow& row, double roundoff, ChoiceOutcome& outcome) {
  const size_t width = row.golden_scores.size();
  const double slack = 2 * roundoff * LargestFinite(row.golden_scores);
  if (!AreWithin(row.golden, width) ||
      !IsChosenBy(row.golden, row.golden_scores, slack)) {
    outcome.is_of_other_scores = true;
    return;
  }
  std::vector<int64_t> golden(row.golden.begin(), row.golden.end());
  std::vector<int64_t> target(row.target.begin(), row.target.end());
  const bool is_within = AreWithin(row.target, width);
  if (is_within && !AreSorted(row.golden, row.golden_scores, slack)) {
    golden = Sorted(row.golden, row.golden_scores);
    target = Sorted(row.target, row.target_scores);
  }
  const double difference = LargestDifference(row);
  for (size_t i = 0; i < golden.size(); ++i) {
    if (golden[i] == target[i]) continue;
    const double gap = is_within ? std::fabs(row.golden_scores[golden[i]] -
                                             row.golden_scores[target[i]])
                                 : kInfinity;
    if (!(gap <= 2 * difference + slack) || std::isinf(gap)) {
      ++outcome.unexplained_count;
      continue;
    }
    ++outcome.flipped_count;
    outcome.gap = std::max(outcome.gap, gap);
    outcome.difference = std::max(outcome.difference, difference);
  }
}

}  // namespace msitd::compare
