// SPDX-License-Identifier: Apache-2.0
#include "daemon/predicate/predicate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "daemon/predicate/predicate_parser.h"
#include "protos/base/check.h"

namespace msitd::predicate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

absl::StatusOr<Predicate> Predicate::Parse(
    std::string_view text, std::span<const std::string_view> names) {
  return PredicateParser(text, names).Parse();
}

bool Predicate::Holds(Values values) const {
  return Evaluate(values).value_or(false);
}

std::optional<bool> Predicate::Evaluate(Values values) const {
  MSITD_CHECK(!nodes_.empty());
  return Evaluate(nodes_.size() - 1, values);
}

std::string Predicate::FirstFailure(Values values) const {
  if (Holds(values)) return "";
  const auto [comparison, wanted] = Culprit(nodes_.size() - 1, true, values);
  return Describe(comparisons_[comparison], wanted, values);
}

bool Predicate::Bound::CanTake(double value) const {
  if (std::isnan(value)) return false;
  return !is_strict || value != (at_least ? -kInfinity : kInfinity);
}

double Predicate::Bound::Tightest(double value) const {
  if (!is_strict) return value;
  return std::nextafter(value, at_least ? -kInfinity : kInfinity);
}

std::vector<Predicate::Bound> Predicate::Bounds() const {
  std::vector<Bound> out;
  if (!nodes_.empty()) AppendBounds(nodes_.size() - 1, true, out);
  return out;
}

std::optional<Predicate::Bound> Predicate::BoundOf(const Comparison& comparison,
                                                   bool wanted) const {
  const bool mirrored = comparison.left.name < 0;
  const Operand& name = mirrored ? comparison.right : comparison.left;
  const Operand& number = mirrored ? comparison.left : comparison.right;
  const Operator op = mirrored ? Mirrored(comparison.op) : comparison.op;
  if (number.name >= 0 || op == Operator::kEqual || op == Operator::kNotEqual) {
    return std::nullopt;
  }
  const bool is_above =
      op == Operator::kGreater || op == Operator::kGreaterEqual;
  const bool is_strict = op == Operator::kGreater || op == Operator::kLess;
  return Bound{name.name, is_above == wanted, is_strict == wanted, !wanted,
               number.number};
}

void Predicate::AppendBounds(uint32_t node, bool wanted,
                             std::vector<Bound>& out) const {
  const Node& at = nodes_[node];
  if (at.kind == Kind::kNot) return AppendBounds(at.left, !wanted, out);
  if (at.kind != Kind::kComparison) {
    AppendBounds(at.left, wanted, out);
    AppendBounds(at.right, wanted, out);
    return;
  }
  const std::optional<Bound> bound = BoundOf(comparisons_[at.left], wanted);
  if (bound.has_value()) out.push_back(*bound);
}

bool Predicate::CanHold(Values values) const {
  MSITD_CHECK(!nodes_.empty());
  return EvaluateAtBest(nodes_.size() - 1, true, values).value_or(false);
}

std::optional<bool> Predicate::EvaluateAtBest(uint32_t node, bool wanted,
                                              Values values) const {
  const Node& at = nodes_[node];
  if (at.kind == Kind::kComparison) {
    const Comparison& comparison = comparisons_[at.left];
    const std::optional<Bound> bound = BoundOf(comparison, wanted);
    const std::optional<bool> as_it_is = Compare(comparison, values);
    if (!bound.has_value() || !as_it_is.has_value() ||
        !values[bound->name].has_value()) {
      return as_it_is;
    }
    return bound->CanTake(*values[bound->name]) ? wanted : *as_it_is;
  }
  if (at.kind == Kind::kNot) {
    return Not(EvaluateAtBest(at.left, !wanted, values));
  }
  return Join(at.kind, EvaluateAtBest(at.left, wanted, values),
              EvaluateAtBest(at.right, wanted, values));
}

bool Predicate::CannotHold(Values at_least) const {
  MSITD_CHECK(!nodes_.empty());
  return EvaluateFrom(nodes_.size() - 1, at_least) == false;
}

std::optional<bool> Predicate::EvaluateFrom(uint32_t node,
                                            Values at_least) const {
  const Node& at = nodes_[node];
  if (at.kind == Kind::kComparison) {
    const Comparison& comparison = comparisons_[at.left];
    const std::optional<bool> result = CompareFrom(comparison, at_least);
    // A value that has a least one may be absent all the same.
    return comparison.is_if_present && result == false ? std::nullopt : result;
  }
  const std::optional<bool> left = EvaluateFrom(at.left, at_least);
  if (at.kind == Kind::kNot) return Not(left);
  return Join(at.kind, left, EvaluateFrom(at.right, at_least));
}

std::optional<bool> Predicate::CompareFrom(const Comparison& comparison,
                                           Values at_least) const {
  const bool mirrored = comparison.left.name < 0;
  const Operand& name = mirrored ? comparison.right : comparison.left;
  const Operand& number = mirrored ? comparison.left : comparison.right;
  if (name.name < 0 || number.name >= 0) return std::nullopt;
  const std::optional<double> least = ValueOf(name, at_least);
  if (!least.has_value()) return std::nullopt;
  const double limit = number.number;
  switch (mirrored ? Mirrored(comparison.op) : comparison.op) {
    case Operator::kLess:
      return *least >= limit ? std::optional(false) : std::nullopt;
    case Operator::kLessEqual:
    case Operator::kEqual:
      return *least > limit ? std::optional(false) : std::nullopt;
    case Operator::kGreater:
    case Operator::kNotEqual:
      return *least > limit ? std::optional(true) : std::nullopt;
    case Operator::kGreaterEqual:
      return *least >= limit ? std::optional(true) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<int> Predicate::Names() const {
  std::vector<int> out;
  for (const Comparison& comparison : comparisons_) {
    for (const int name : {comparison.left.name, comparison.right.name}) {
      if (name >= 0) out.push_back(name);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::optional<bool> Predicate::Evaluate(uint32_t node, Values values) const {
  const Node& at = nodes_[node];
  if (at.kind == Kind::kComparison) {
    return Compare(comparisons_[at.left], values);
  }
  const std::optional<bool> left = Evaluate(at.left, values);
  if (at.kind == Kind::kNot) return Not(left);
  if (left == IsDecisive(at.kind)) return left;
  return Join(at.kind, left, Evaluate(at.right, values));
}

std::optional<bool> Predicate::Not(std::optional<bool> value) {
  return value.has_value() ? std::optional(!*value) : std::nullopt;
}

std::optional<bool> Predicate::Join(Kind kind, std::optional<bool> left,
                                    std::optional<bool> right) {
  const bool decisive = IsDecisive(kind);
  if (left == decisive || right == decisive) return decisive;
  return left.has_value() && right.has_value() ? std::optional(!decisive)
                                               : std::nullopt;
}

std::optional<bool> Predicate::Compare(const Comparison& comparison,
                                       Values values) const {
  const std::optional<double> left = ValueOf(comparison.left, values);
  const std::optional<double> right = ValueOf(comparison.right, values);
  if (comparison.is_if_present && (!left.has_value() || !right.has_value())) {
    return true;
  }
  if (!left.has_value() || !right.has_value() || std::isnan(*left) ||
      std::isnan(*right)) {
    return std::nullopt;
  }
  switch (comparison.op) {
    case Operator::kLess:
      return *left < *right;
    case Operator::kLessEqual:
      return *left <= *right;
    case Operator::kGreater:
      return *left > *right;
    case Operator::kGreaterEqual:
      return *left >= *right;
    case Operator::kEqual:
      return *left == *right;
    case Operator::kNotEqual:
      return *left != *right;
  }
  return std::nullopt;
}

std::pair<uint32_t, bool> Predicate::Culprit(uint32_t node, bool wanted,
                                             Values values) const {
  const Node& at = nodes_[node];
  if (at.kind == Kind::kComparison) return {at.left, wanted};
  if (at.kind == Kind::kNot) return Culprit(at.left, !wanted, values);
  // An `and` that should be true, or an `or` that should be false, requires
  // both sides to be as wanted: the first side that is not is the culprit.
  // Otherwise one side would be sufficient, and neither side is as wanted.
  const bool both_needed = (at.kind == Kind::kAnd) == wanted;
  const bool left_as_wanted = Evaluate(at.left, values) == wanted;
  return Culprit(both_needed && left_as_wanted ? at.right : at.left, wanted,
                 values);
}

std::string Predicate::Describe(const Comparison& comparison, bool wanted,
                                Values values) const {
  // The sentence begins with the name, wherever it stands in the predicate.
  const bool mirrored = comparison.left.name < 0;
  const Operand& name = mirrored ? comparison.right : comparison.left;
  const Operand& bound = mirrored ? comparison.left : comparison.right;
  const Operator op = mirrored ? Mirrored(comparison.op) : comparison.op;
  const auto rendered = [&values](const Operand& operand, bool exact) {
    const std::optional<double> value = ValueOf(operand, values);
    if (!value.has_value()) return std::string("undefined");
    return exact ? fmt::format("{}", *value) : fmt::format("{:.6g}", *value);
  };
  // Six digits are precise enough unless they hide the difference.
  const bool exact = rendered(name, false) == rendered(bound, false);
  std::string needs = std::string(TextOf(bound));
  if (bound.name >= 0) needs += fmt::format(" ({})", rendered(bound, exact));
  return fmt::format("{} = {}, needs {}{} {}", TextOf(name),
                     rendered(name, exact), wanted ? "" : "not ", Spelling(op),
                     needs);
}

std::string_view Predicate::TextOf(const Operand& operand) const {
  return std::string_view(text_).substr(operand.text_offset,
                                        operand.text_length);
}

std::optional<double> Predicate::ValueOf(const Operand& operand,
                                         Values values) {
  if (operand.name < 0) return operand.number;
  MSITD_CHECK(static_cast<size_t>(operand.name) < values.size());
  return values[operand.name];
}

std::string_view Predicate::Spelling(Operator op) {
  switch (op) {
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    case Operator::kGreaterEqual:
      return ">=";
    case Operator::kEqual:
      return "==";
    case Operator::kNotEqual:
      break;
  }
  return "!=";
}

Predicate::Operator Predicate::Mirrored(Operator op) {
  switch (op) {
    case Operator::kLess:
      return Operator::kGreater;
    case Operator::kLessEqual:
      return Operator::kGreaterEqual;
    case Operator::kGreater:
      return Operator::kLess;
    case Operator::kGreaterEqual:
      return Operator::kLessEqual;
    case Operator::kEqual:
    case Operator::kNotEqual:
      break;
  }
  return op;
}

}  // namespace msitd::predicate
