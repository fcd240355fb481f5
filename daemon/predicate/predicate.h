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

// A predicate that exceeds one of these limits is refused.
inline constexpr size_t kPredicateBytesMax = 4096;
inline constexpr int kPredicateDepthMax = 32;  // Of `not` and `(`.
inline constexpr size_t kPredicateComparisonsMax = 256;

// A condition on named numbers, such as `cosine >= 0.999 and (max_abs <= 1e-2
// or nl2 < 1e-3)`. docs/predicates.md defines the grammar.
//
// A comparison with a value that is absent or NaN is undefined, and so is its
// negation. A predicate that comes out undefined does not hold, so what could
// not be measured never passes. Only a comparison that ends with `if present`
// is true where a value is absent.
//
// Immutable and therefore thread-safe.
class Predicate {
 public:
  // Parses `text`, which may refer to `names`. Holds expects the values of
  // these names in the same order. Neither argument is retained.
  //
  // Errors: INVALID_ARGUMENT with PREDICATE_INVALID. The message contains the
  // column, starting at 1, and what was expected there.
  static absl::StatusOr<Predicate> Parse(
      std::string_view text, std::span<const std::string_view> names);

  // Returns whether the predicate holds. `values` has one entry for each name.
  bool Holds(std::span<const std::optional<double>> values) const;

  // Returns whether the predicate is true or false; nullopt if it is undefined.
  std::optional<bool> Evaluate(
      std::span<const std::optional<double>> values) const;

  // Returns whether both predicates consist of the same comparisons. Spaces and
  // redundant parentheses do not matter.
  friend bool operator==(const Predicate& a, const Predicate& b) {
    return a.nodes_ == b.nodes_ && a.comparisons_ == b.comparisons_;
  }

  // Describes the first comparison that prevents the predicate from holding,
  // such as `cosine = 0.91, needs >= 0.999`. If there are alternatives,
  // describes the first one. Empty if the predicate holds.
  std::string FirstFailure(std::span<const std::optional<double>> values) const;

  const std::string& text() const { return text_; }

  // A comparison of a name with a number: `name >= number` if `at_least`,
  // otherwise `name <= number`; `>` and `<` if `is_strict`. Comparisons with
  // `==` or `!=`, or of two names, are not bounds.
  struct Bound {
    int name = 0;  // Index into the names given to Parse.
    bool at_least = false;
    bool is_strict = false;
    // True if the bound is under a `not`, so that the opposite of the written
    // comparison is required.
    bool is_negated = false;
    double number = 0;

    // Returns whether `value` would satisfy the bound for some other number.
    bool CanTake(double value) const;
    // Returns the tightest such number. CanTake(value) must be true.
    double Tightest(double value) const;
  };
  // Returns the bounds in the order of the text.
  std::vector<Bound> Bounds() const;

  // Returns whether the predicate would hold for some other numbers in its
  // bounds.
  bool CanHold(std::span<const std::optional<double>> values) const;

  // Returns whether the predicate is false for all values that are greater than
  // or equal to those in `at_least`. An absent entry stands for an arbitrary
  // value.
  bool CannotHold(std::span<const std::optional<double>> at_least) const;

  // Returns the indices of the names that occur, each once, in ascending order.
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

  // A name if `name` is not negative, otherwise a number.
  struct Operand {
    int name = -1;
    double number = 0;
    uint32_t text_offset = 0;
    uint32_t text_length = 0;

    friend bool operator==(const Operand& a, const Operand& b) {
      return a.name == b.name && (a.name >= 0 || a.number == b.number);
    }
  };

  enum class Kind : uint8_t { kComparison, kAnd, kOr, kNot };

  // `left` and `right` are indices into nodes_, or into comparisons_ for a
  // kComparison.
  struct Node {
    Kind kind;
    uint32_t left = 0;
    uint32_t right = 0;

    friend bool operator==(const Node&, const Node&) = default;
  };

  struct Comparison {
    Operand left;
    Operator op;
    Operand right;
    bool is_if_present = false;

    friend bool operator==(const Comparison&, const Comparison&) = default;
  };

  using Values = std::span<const std::optional<double>>;

  Predicate() = default;

  std::optional<bool> Evaluate(uint32_t node, Values values) const;
  // Returns the value of one side that decides an `and` or an `or`, whatever
  // the other side is.
  static bool IsDecisive(Kind kind) { return kind == Kind::kOr; }
  static std::optional<bool> Not(std::optional<bool> value);
  static std::optional<bool> Join(Kind kind, std::optional<bool> left,
                                  std::optional<bool> right);
  std::optional<bool> Compare(const Comparison& comparison,
                              Values values) const;
  // Returns the comparison that prevents `node` from being `wanted`, and
  // whether that comparison would have to be true.
  std::pair<uint32_t, bool> Culprit(uint32_t node, bool wanted,
                                    Values values) const;
  // Returns the bound within which the result of the comparison is `wanted`;
  // nullopt if the comparison is not a bound.
  std::optional<Bound> BoundOf(const Comparison& comparison, bool wanted) const;
  void AppendBounds(uint32_t node, bool wanted, std::vector<Bound>& out) const;
  // Like Evaluate, but considers every bound that some number would satisfy as
  // satisfied.
  std::optional<bool> EvaluateAtBest(uint32_t node, bool wanted,
                                     Values values) const;
  // Like Evaluate for all values that are at least `at_least`; nullopt if the
  // result depends on the values.
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
