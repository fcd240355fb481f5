// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::predicate {

// A predicate beyond one of these is refused.
inline constexpr size_t kPredicateBytesMax = 4096;
inline constexpr int kPredicateDepthMax = 32;  // Of `not` and parentheses.
inline constexpr size_t kPredicateComparisonsMax = 256;

// A condition on named numbers, such as
// `cosine >= 0.999 and (max_abs <= 1e-2 or nl2 < 1e-3)`. The grammar is in
// docs/predicates.md.
//
// A comparison with a value that is absent or NaN is undefined, and so is its
// negation; a predicate that comes out undefined does not hold. So whatever
// could not be measured never passes.
//
// Immutable, hence thread-safe.
class Predicate {
 public:
  // Reads `text`, which may use `names`; a later Holds takes their values in
  // the same order. Neither is kept.
  //
  // Errors: INVALID_ARGUMENT with PREDICATE_INVALID; the message has the
  // column, from 1, and what was expected there.
  static absl::StatusOr<Predicate> Parse(
      std::string_view text, std::span<const std::string_view> names);

  // `values` has one entry for each of the names.
  bool Holds(std::span<const std::optional<double>> values) const;

  // Says which comparison was the first to keep the predicate from holding,
  // such as `cosine = 0.91, needs >= 0.999`; of alternatives it takes the
  // first one. Empty if the predicate holds.
  std::string FirstFailure(std::span<const std::optional<double>> values) const;

  const std::string& text() const { return text_; }

  // A comparison of a name with a number, as what it asks for: `name >=
  // number` if `at_least`, else `name <= number`; `>` and `<` if `is_strict`.
  // Those of `==`, `!=` and of two names are no bounds.
  struct Bound {
    int name = 0;  // Index of the names given to Parse.
    bool at_least = false;
    bool is_strict = false;
    // It is under `not`, which asks for the opposite of what is written.
    bool is_negated = false;
    double number = 0;

    // Whether there is a number in whose place `value` would satisfy it.
    bool CanTake(double value) const;
    // The tightest such number, of one that it CanTake.
    double Tightest(double value) const;
  };
  // In the order of the text.
  std::vector<Bound> Bounds() const;

  // Whether some numbers in place of those of the bounds would let the
  // predicate hold.
  bool CanHold(std::span<const std::optional<double>> values) const;

  // True if the predicate does not hold, whatever the values are, as long as
  // each is that of `at_least` or larger; of those that are absent there
  // nothing is known.
  bool CannotHold(std::span<const std::optional<double>> at_least) const;

  // Indices of the names that occur, each once, ascending.
  std::vector<int> Names() const;

 private:
  friend class PredicateParser;

  enum class Operator : uint8_t {
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kEqual,
    kNotEqual,
  };

  // A name if `name` is not negative, else a number.
  struct Operand {
    int name = -1;
    double number = 0;
    uint32_t text_offset = 0;
    uint32_t text_length = 0;
  };

  enum class Kind : uint8_t { kComparison, kAnd, kOr, kNot };

  // `left` and `right` index nodes_, or comparisons_ for a kComparison.
  struct Node {
    Kind kind;
    uint32_t left = 0;
    uint32_t right = 0;
  };

  struct Comparison {
    Operand left;
    Operator op;
    Operand right;
  };

  using Values = std::span<const std::optional<double>>;

  Predicate() = default;

  std::optional<bool> Evaluate(uint32_t node, Values values) const;
  // The value of a side that decides by itself, whatever the other side is.
  static bool IsDecisive(Kind kind) { return kind == Kind::kOr; }
  static std::optional<bool> Not(std::optional<bool> value);
  static std::optional<bool> Join(Kind kind, std::optional<bool> left,
                                  std::optional<bool> right);
  std::optional<bool> Compare(const Comparison& comparison,
                              Values values) const;
  // The comparison that keeps `node` from being `wanted`, and whether it would
  // have to be true.
  std::pair<uint32_t, bool> Culprit(uint32_t node, bool wanted,
                                    Values values) const;
  // What the comparison asks for where it is wanted to be true, or false;
  // nothing if it is no bound.
  std::optional<Bound> BoundOf(const Comparison& comparison, bool wanted) const;
  void AppendBounds(uint32_t node, bool wanted, std::vector<Bound>& out) const;
  // The same as Evaluate, where every bound that could be is as it is wanted.
  std::optional<bool> EvaluateAtBest(uint32_t node, bool wanted,
                                     Values values) const;
  // The same as Evaluate, where values may be larger; nothing if that decides.
  std::optional<bool> EvaluateFrom(uint32_t node, Values at_least) const;
  std::optional<bool> CompareFrom(const Comparison& comparison,
                                  Values at_least) const;
  std::string Describe(const Comparison& comparison, bool wanted,
                       Values values) const;
  std::string_view TextOf(const Operand& operand) const;
  static std::optional<double> ValueOf(const Operand& operand, Values values);
  static std::string_view Spelling(Operator op);
  static Operator Mirrored(Operator op);

  std::string text_;
  std::vector<Node> nodes_;  // The root is the last one.
  std::vector<Comparison> comparisons_;
};

}  // namespace msitd::predicate
