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
// negation. A predicate that comes out undefined does not hold, so what could
// not be measured never passes. Only a comparison that ends with `if present`
// is true where a value is absent.
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

  // Describes the first comparison that keeps the predicate from holding, such
  // as `cosine = 0.91, needs >= 0.999`. Of alternatives it names the first.
  // Empty if the predicate holds.
  std::string FirstFailure(std::span<const std::optional<double>> values) const;

  const std::string& text() const { return text_; }

  // What a comparison of a name with a number asks for: `name >= number` if
  // `at_least`, else `name <= number`; `>` and `<` if `is_strict`. Comparisons
  // with `==` or `!=`, or of two names, are not bounds.
  struct Bound {
    int name = 0;  // Index of the names given to Parse.
    bool at_least = false;
    bool is_strict = false;
    // True under a `not`, where the bound is the opposite of what is written.
    bool is_negated = false;
    double number = 0;

    // True if `value` would satisfy the bound with some other number.
    bool CanTake(double value) const;
    // The tightest such number. The bound CanTake `value`.
    double Tightest(double value) const;
  };
  // In the order of the text.
  std::vector<Bound> Bounds() const;

  // True if the predicate would hold with some other numbers in its bounds.
  bool CanHold(std::span<const std::optional<double>> values) const;

  // True if the predicate holds for no values that are those of `at_least` or
  // larger. A value that is absent there may be anything.
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
    bool is_if_present = false;
  };

  using Values = std::span<const std::optional<double>>;

  Predicate() = default;

  std::optional<bool> Evaluate(uint32_t node, Values values) const;
  // The value that decides an `and` or an `or`, whatever the other side is.
  static bool IsDecisive(Kind kind) { return kind == Kind::kOr; }
  static std::optional<bool> Not(std::optional<bool> value);
  static std::optional<bool> Join(Kind kind, std::optional<bool> left,
                                  std::optional<bool> right);
  std::optional<bool> Compare(const Comparison& comparison,
                              Values values) const;
  // Returns the comparison that keeps `node` from being `wanted`, and whether
  // that comparison would have to be true.
  std::pair<uint32_t, bool> Culprit(uint32_t node, bool wanted,
                                    Values values) const;
  // The bound within which the comparison comes out as `wanted`; nothing if the
  // comparison is no bound.
  std::optional<Bound> BoundOf(const Comparison& comparison, bool wanted) const;
  void AppendBounds(uint32_t node, bool wanted, std::vector<Bound>& out) const;
  // The same as Evaluate, but takes every bound that some number would satisfy
  // as satisfied.
  std::optional<bool> EvaluateAtBest(uint32_t node, bool wanted,
                                     Values values) const;
  // The same as Evaluate for values that may be larger than `at_least`;
  // nothing if the result depends on them.
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
