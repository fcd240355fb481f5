// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/choices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "daemon/compare/judge/closing_value.h"

namespace msitd::compare {
namespace {

// A value that occurs more often in a row is a constant, not a tie.
constexpr ptrdiff_t kTiesMax = 8;
// Scores with fewer different values order nothing.
constexpr size_t kScoresMin = 2;
// Fewer bits of choices are in order by chance.
constexpr double kGoldenBitsMin = 1;
// Scores with fewer different values are a mask.
constexpr size_t kValuesMin = 3;

bool IsClosedScore(double score) {
  return !std::isfinite(score) || IsClosing(score) || IsClosing(-score);
}

// Returns whether the chosen scores are in order and no other score is better.
// `sign` is 1 for descending and -1 for ascending order. Returns false for
// indices that are invalid or repeated, and for NaN.
bool IsChosenBy(std::span<const int64_t> chosen, std::span<const double> scores,
                double sign) {
  std::vector<bool> is_chosen(scores.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const int64_t choice = chosen[i];
    if (choice < 0 || static_cast<size_t>(choice) >= scores.size() ||
        is_chosen[choice]) {
      return false;
    }
    is_chosen[choice] = true;
    if (i > 0 && !(sign * scores[choice] <= sign * scores[chosen[i - 1]])) {
      return false;
    }
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return false;
    if (!is_chosen[i] && sign * scores[i] > sign * scores[chosen.back()]) {
      return false;
    }
  }
  return true;
}

// Counts equal scores of a row. Sorts a copy of the scores when the first count
// is requested.
class TieCounter {
 public:
  explicit TieCounter(std::span<const double> scores) : scores_(scores) {}

  bool AreTied(int64_t a, int64_t b) const { return scores_[a] == scores_[b]; }

  bool IsRare(int64_t choice) {
    if (sorted_.empty()) {
      sorted_.assign(scores_.begin(), scores_.end());
      std::sort(sorted_.begin(), sorted_.end());
    }
    const auto [begin, end] =
        std::equal_range(sorted_.begin(), sorted_.end(), scores_[choice]);
    return end - begin <= kTiesMax;
  }

 private:
  std::span<const double> scores_;
  std::vector<double> sorted_;
};

void AddValues(std::span<const double> scores, std::set<double>& values) {
  for (const double score : scores) {
    if (values.size() >= kValuesMin) return;
    if (!IsClosedScore(score)) values.insert(score);
  }
}

}  // namespace

void ChoiceJudge::AddTo(const ChoiceRow& row, double sign, Order& order) const {
  if (!order.is_of_golden) return;
  order.is_of_golden = IsChosenBy(row.golden, row.golden_scores, sign);
  if (!order.is_of_golden) return;
  uint64_t differing = 0;
  bool has_ties = false;
  bool has_moved = false;
  bool is_explained = IsChosenBy(row.target, row.target_scores, sign);
  TieCounter ties[] = {TieCounter(row.golden_scores),
                       TieCounter(row.target_scores)};
  for (size_t i = 0; i < row.golden.size(); ++i) {
    const int64_t golden = row.golden[i];
    const int64_t target = row.target[i];
    if (golden == target) continue;
    ++differing;
    if (!is_explained) continue;
    is_explained = !IsClosedScore(row.golden_scores[golden]) &&
                   !IsClosedScore(row.target_scores[target]);
    int tied = 0;
    for (TieCounter& scores : ties) {
      if (!scores.AreTied(golden, target)) continue;
      ++tied;
      is_explained = is_explained && scores.IsRare(golden);
    }
    has_ties = has_ties || tied > 0;
    // Scores that are the same in both runs explain a difference only if they
    // are tied.
    has_moved = has_moved || tied == 2 ||
                row.golden_scores[golden] != row.target_scores[golden] ||
                row.golden_scores[target] != row.target_scores[target];
  }
  if (!is_explained || !has_moved) {
    order.unexplained_count += differing;
    return;
  }
  order.flipped_count += differing;
  if (has_ties) order.tied_count += differing;
}

void ChoiceJudge::Add(const ChoiceRow& row) {
  AddValues(row.golden_scores, values_.golden);
  AddValues(row.target_scores, values_.target);
  AddTo(row, 1, descending_);
  for (size_t i = 0; i < row.golden.size() && i < row.golden_scores.size();
       ++i) {
    golden_bits_ +=
        std::log2(static_cast<double>(row.golden_scores.size() - i));
  }
  if (row.golden.size() < 2) {
    has_one_ = true;
    ascending_.is_of_golden = false;
  }
  AddTo(row, -1, ascending_);
}

ChoiceOutcome ChoiceJudge::Finish() const {
  ChoiceOutcome out;
  const Order& order = descending_.is_of_golden ? descending_ : ascending_;
  // If all scores are equal, every choice is in order.
  // One bit of several choices selects between both orders.
  const double bits = golden_bits_ - (has_one_ ? 0 : 1);
  out.is_of_other_scores = !order.is_of_golden || bits < kGoldenBitsMin ||
                           values_.golden.size() < kScoresMin;
  if (out.is_of_other_scores) return out;
  out.flipped_count = order.flipped_count;
  out.unexplained_count = order.unexplained_count;
  if (values_.golden.size() < kValuesMin ||
      values_.target.size() < kValuesMin) {
    out.flipped_count -= order.tied_count;
    out.unexplained_count += order.tied_count;
  }
  return out;
}

}  // namespace msitd::compare
