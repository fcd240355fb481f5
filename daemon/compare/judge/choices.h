// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
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

  friend bool operator==(const ChoiceOutcome&, const ChoiceOutcome&) = default;
};

// Finds out whether each run chose by its own scores, row after row. Nothing is
// near enough: an element that differs is explained if all chosen scores of
// either run are in order and no score that was left is better. The order is
// descending in all rows, or, of two choices or more, ascending.
//
// Scores that close a place of a mask explain nothing. Equal scores may be told
// apart either way if few have the value and the tensor has others: not in a
// mask, or among zeros.
//
// Thread-compatible.
class ChoiceJudge {
 public:
  void Add(const ChoiceRow& row);
  ChoiceOutcome Finish() const;

 private:
  // Of one order of the scores.
  struct Order {
    bool is_of_golden = true;
    uint64_t flipped_count = 0;
    uint64_t tied_count = 0;  // Of them, in rows with equal scores.
    uint64_t unexplained_count = 0;
  };

  // Of either run: the first few values that close nothing.
  struct Values {
    std::set<double> golden;
    std::set<double> target;
  };

  void AddTo(const ChoiceRow& row, double sign, Order& order) const;

  Order descending_;
  Order ascending_;
  Values values_;
};

}  // namespace msitd::compare
