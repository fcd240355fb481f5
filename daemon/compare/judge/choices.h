// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <span>

// Judges choices: tensors with the indices that an op has selected by scores,
// such as an argmax, a top-k, or the experts of a router.
namespace msitd::compare {

// One row of choices and the scores of its candidates. Choices are indices into
// the scores. Both runs have the same number of choices.
struct ChoiceRow {
  std::span<const int64_t> golden;
  std::span<const int64_t> target;
  std::span<const double> golden_scores;
  std::span<const double> target_scores;
};

// The result for all rows.
struct ChoiceOutcome {
  // The golden run did not choose by these scores, so they prove nothing. The
  // counts are then 0.
  bool is_of_other_scores = false;
  // Number of choices that differ and follow from the scores, and of all other
  // choices that differ.
  uint64_t flipped_count = 0;
  uint64_t unexplained_count = 0;

  friend bool operator==(const ChoiceOutcome&, const ChoiceOutcome&) = default;
};

// Determines whether choices differ only because the scores differ.
//
// A choice is right or wrong, so no tolerance applies to it. But if two scores
// are nearly equal, rounding errors can change which one is chosen, and both
// runs are correct. A limit for "nearly equal" would depend on the model, and
// would hide an op that selects wrongly. This class therefore ignores how close
// scores are and checks whether each run chose by its own scores. Errors of the
// scores are judged where the scores are compared. This requires that both runs
// recorded their scores.
//
// A difference is explained if in both runs, the scores of all choices are in
// order and no other score is better. The order is descending in all rows or,
// if every row has at least two choices, ascending in all rows. In addition:
//
// - A closing value of a mask (closing_value.h) explains no choice.
// - A choice between equal scores is explained only if few scores of the row
//   have that value and both tensors have enough different values. Otherwise
//   the scores are a mask or zeros.
// - The scores are those of the golden run only if its choices show it. One row
//   with both of two scores is always in one of the two orders.
//
// Thread-compatible.
class ChoiceJudge {
 public:
  void Add(const ChoiceRow& row);
  ChoiceOutcome Finish() const;

 private:
  // The counts for one order of the scores.
  struct Order {
    bool is_of_golden = true;  // No golden row contradicts this order.
    uint64_t flipped_count = 0;
    uint64_t tied_count = 0;  // The part of flipped_count in rows with ties.
    uint64_t unexplained_count = 0;
  };

  // The first few different scores of each run, without closing values.
  struct Values {
    std::set<double> golden;
    std::set<double> target;
  };

  void AddTo(const ChoiceRow& row, double sign, Order& order) const;

  // The number of bits that the golden choices have if they are in order by
  // chance.
  double golden_bits_ = 0;
  bool has_one_ = false;  // Some row has one choice, so the order is known.
  Order descending_;
  Order ascending_;
  Values values_;
};

}  // namespace msitd::compare
