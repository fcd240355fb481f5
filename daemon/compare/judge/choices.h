// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

// Whether the scores of two runs explain that they chose differently: an
// argmax, a top-k, the experts of a router.
namespace msitd::compare {

// One row of choices with its scores. Both runs chose equally many.
struct ChoiceRow {
  std::span<const int64_t> golden;
  std::span<const int64_t> target;
  std::span<const double> golden_scores;
  std::span<const double> target_scores;
};

// What the scores say of rows of choices.
struct ChoiceOutcome {
  // Golden has not chosen by these scores, so that they say nothing.
  bool is_of_other_scores = false;
  // Elements that differ as the scores explain, and that they do not explain.
  uint64_t flipped_count = 0;
  uint64_t unexplained_count = 0;
  // Over all flips: the largest gap between the golden scores of the two
  // choices, and how much the scores of such a row differ at most.
  double gap = 0;
  double difference = 0;

  friend bool operator==(const ChoiceOutcome&, const ChoiceOutcome&) = default;
};

// Adds a row, whose scores round by `roundoff` (such as 2^-8), to `outcome`.
//
// The j-th largest score of a row moves no further than its scores do. So if
// each run chose by its own scores, the golden scores of both choices are no
// more than twice that apart. Rounding of the largest score is allowed on top:
// equal scores may be told apart either way, and choices may be made before
// scores are rounded to the type on record.
void AddChoices(const ChoiceRow& row, double roundoff, ChoiceOutcome& outcome);

}  // namespace msitd::compare
