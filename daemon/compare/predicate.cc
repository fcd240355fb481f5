// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/predicate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/compare/predicate_parser.h"
#include "protos/base/check.h"

namespace msitd::compare {

absl::StatusOr<Predicate> Predicate::Parse(
    std::string_view text, std::span<const std::string_view> names) {
  return PredicateParser(text, names).Parse();
}

bool Predicate::Holds(Values values) const {
  MSITD_CHECK(!nodes_.empty());
  return Evaluate(nodes_.size() - 1, values).value_or(false);
}

std::string Predicate::FirstFailure(Values values) const {
  if (Holds(values)) return "";
  const auto [comparison, wanted] = Culprit(nodes_.size() - 1, true, values);
  return Describe(comparisons_[comparison], wanted, values);
}

std::vector<Predicate::Bound> Predicate::Bounds() const {
  std::vector<Bound> out;
  if (!nodes_.empty()) AppendBounds(nodes_.size() - 1, out);
  return out;
}

void Predicate::AppendBounds(uint32_t node, std::vector<Bound>& out) const {
  const Node& at = nodes_[node];
  if (at.kind == Kind::kNot) return;
  if (at.kind != Kind::kComparison) {
    AppendBounds(at.left, out);
    AppendBounds(at.right, out);
    return;
  }
  const Comparison& comparison = comparisons_[at.left];
  const bool mirrored = comparison.left.name < 0;
  const Operand& name = mirrored ? comparison.right : comparison.left;
  const Operand& bound = mirrored ? comparison.left : comparison.right;
  const Operator op = mirrored ? Mirrored(comparison.op) : comparison.op;
  if (bound.name >= 0 || op == Operator::kEqual || op == Operator::kNotEqual) {
    return;
  }
  out.push_back({name.name,
                 op == Operator::kGreater || op == Operator::kGreaterEqual,
                 bound.number});
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
  if (at.kind == Kind::kNot) {
    return left.has_value() ? std::optional(!*left) : std::nullopt;
  }
  // The value that decides by itself, whatever the other side is.
  const bool decisive = at.kind == Kind::kOr;
  if (left == decisive) return left;
  const std::optional<bool> right = Evaluate(at.right, values);
  if (right == decisive) return right;
  return left.has_value() && right.has_value() ? std::optional(!decisive)
                                               : std::nullopt;
}

std::optional<bool> Predicate::Compare(const Comparison& comparison,
                                       Values values) const {
  const std::optional<double> left = ValueOf(comparison.left, values);
  const std::optional<double> right = ValueOf(comparison.right, values);
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
  // Wanted true of an `and`, or false of an `or`: both sides must be as wanted,
  // and the first that is not keeps the node from it. Otherwise one would do
  // and neither did.
  const bool both_needed = (at.kind == Kind::kAnd) == wanted;
  const bool left_as_wanted = Evaluate(at.left, values) == wanted;
  return Culprit(both_needed && left_as_wanted ? at.right : at.left, wanted,
                 values);
}

std::string Predicate::Describe(const Comparison& comparison, bool wanted,
                                Values values) const {
  // The name comes first in the sentence, wherever it is in the predicate.
  const bool mirrored = comparison.left.name < 0;
  const Operand& name = mirrored ? comparison.right : comparison.left;
  const Operand& bound = mirrored ? comparison.left : comparison.right;
  const Operator op = mirrored ? Mirrored(comparison.op) : comparison.op;
  const auto rendered = [&values](const Operand& operand, bool exact) {
    const std::optional<double> value = ValueOf(operand, values);
    if (!value.has_value()) return std::string("undefined");
    return exact ? fmt::format("{}", *value) : fmt::format("{:.6g}", *value);
  };
  // Six digits are enough to read, unless they hide the difference.
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

}  // namespace msitd::compare
