// SPDX-License-Identifier: Apache-2.0
#include "daemon/predicate/predicate_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "protos/status/status.h"

namespace msitd::predicate {
namespace {

// <cctype> is not used because it depends on the locale.
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr size_t kQuotedBytesMax = 32;

// Length of a unit such as `KiB`.
constexpr size_t kUnitBytes = 3;

// Returns the power of 1024 that a unit at the end stands for; 0 if there is no
// unit.
int PowerAtEnd(std::string_view text) {
  int power = 1;
  for (const std::string_view unit : {"KiB", "MiB", "GiB", "TiB"}) {
    if (text.ends_with(unit)) return power;
    ++power;
  }
  return 0;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kQuotedBytesMax)) {
    const bool plain = c >= 0x20 && c < 0x7f;
    out += plain ? std::string(1, c)
                 : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + (text.size() > kQuotedBytesMax ? "...\"" : "\"");
}

}  // namespace

PredicateParser::PredicateParser(std::string_view text,
                                 std::span<const std::string_view> names)
    : text_(text), names_(names) {}

absl::StatusOr<Predicate> PredicateParser::Parse() {
  if (text_.size() > kPredicateBytesMax) {
    return ErrorAt(kPredicateBytesMax,
                   fmt::format("a predicate has at most {} bytes, this one {}",
                               kPredicateBytesMax, text_.size()));
  }
  out_.text_ = std::string(text_);
  Advance();
  MSITD_ASSIGN_OR_RETURN(const uint32_t root, ParseOr(0));
  static_cast<void>(root);  // It is the last node.
  if (token_ != Token::kEnd) {
    return Expected("\"and\", \"or\" or the end");
  }
  return std::move(out_);
}

absl::StatusOr<uint32_t> PredicateParser::ParseOr(int depth) {
  MSITD_ASSIGN_OR_RETURN(uint32_t left, ParseAnd(depth));
  while (AtWord("or")) {
    Advance();
    MSITD_ASSIGN_OR_RETURN(const uint32_t right, ParseAnd(depth));
    left = AddNode({Predicate::Kind::kOr, left, right});
  }
  return left;
}

absl::StatusOr<uint32_t> PredicateParser::ParseAnd(int depth) {
  MSITD_ASSIGN_OR_RETURN(uint32_t left, ParseNot(depth));
  while (AtWord("and")) {
    Advance();
    MSITD_ASSIGN_OR_RETURN(const uint32_t right, ParseNot(depth));
    left = AddNode({Predicate::Kind::kAnd, left, right});
  }
  return left;
}

absl::StatusOr<uint32_t> PredicateParser::ParseNot(int depth) {
  const bool negation = AtWord("not");
  if (!negation && token_ != Token::kOpen) return ParseComparison();
  if (depth == kPredicateDepthMax) {
    return ErrorAt(word_.data() - text_.data(),
                   fmt::format("\"not\" and parentheses nest at most {} deep",
                               kPredicateDepthMax));
  }
  Advance();
  if (negation) {
    MSITD_ASSIGN_OR_RETURN(const uint32_t operand, ParseNot(depth + 1));
    return AddNode({Predicate::Kind::kNot, operand, 0});
  }
  MSITD_ASSIGN_OR_RETURN(const uint32_t inner, ParseOr(depth + 1));
  if (token_ != Token::kClose) return Expected("\"and\", \"or\" or \")\"");
  Advance();
  return inner;
}

absl::StatusOr<uint32_t> PredicateParser::ParseComparison() {
  const size_t begin = word_.data() - text_.data();
  if (out_.comparisons_.size() == kPredicateComparisonsMax) {
    return ErrorAt(begin, fmt::format("a predicate has at most {} comparisons",
                                      kPredicateComparisonsMax));
  }
  MSITD_ASSIGN_OR_RETURN(const Predicate::Operand left, ParseOperand());
  MSITD_ASSIGN_OR_RETURN(const Predicate::Operator op, ParseOperator());
  MSITD_ASSIGN_OR_RETURN(const Predicate::Operand right, ParseOperand());
  if (left.name < 0 && right.name < 0) {
    return ErrorAt(begin, "a comparison needs a name on at least one side");
  }
  bool is_if_present = false;
  if (AtWord("if")) {
    Advance();
    if (!AtWord("present")) return Expected("\"present\"");
    Advance();
    is_if_present = true;
  }
  out_.comparisons_.push_back({left, op, right, is_if_present});
  return AddNode({Predicate::Kind::kComparison,
                  static_cast<uint32_t>(out_.comparisons_.size() - 1), 0});
}

absl::StatusOr<Predicate::Operand> PredicateParser::ParseOperand() {
  Predicate::Operand operand;
  operand.text_offset = static_cast<uint32_t>(word_.data() - text_.data());
  operand.text_length = static_cast<uint32_t>(word_.size());
  if (token_ == Token::kNumber) {
    std::string_view digits = word_;
    if (digits.front() == '+') digits.remove_prefix(1);
    const int power = PowerAtEnd(digits);
    if (power > 0) digits.remove_suffix(kUnitBytes);
    const auto [end, error] = std::from_chars(
        digits.data(), digits.data() + digits.size(), operand.number);
    operand.number = std::ldexp(operand.number, 10 * power);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return ErrorAt(operand.text_offset,
                     fmt::format("{} is out of the range of a double; write "
                                 "0 or inf",
                                 Quoted(word_)));
    }
    Advance();
    return operand;
  }
  const bool keyword = AtWord("and") || AtWord("or") || AtWord("not");
  if (token_ != Token::kName || keyword) {
    return Expected("a name or a number");
  }
  const auto found = std::find(names_.begin(), names_.end(), word_);
  if (found == names_.end()) {
    return ErrorAt(operand.text_offset,
                   fmt::format("unknown name {}; expected one of {}",
                               Quoted(word_), NameList()));
  }
  operand.name = static_cast<int>(found - names_.begin());
  Advance();
  return operand;
}

absl::StatusOr<Predicate::Operator> PredicateParser::ParseOperator() {
  if (token_ != Token::kOperator) {
    return Expected("one of < <= > >= == !=");
  }
  using Operator = Predicate::Operator;
  for (const Operator op :
       {Operator::kLess, Operator::kLessEqual, Operator::kGreater,
        Operator::kGreaterEqual, Operator::kEqual, Operator::kNotEqual}) {
    if (Predicate::Spelling(op) == word_) {
      Advance();
      return op;
    }
  }
  return Expected("one of < <= > >= == !=");
}

void PredicateParser::Advance() {
  while (position_ < text_.size() && IsBlank(text_[position_])) ++position_;
  const std::string_view rest = text_.substr(position_);
  const auto take = [&](Token token, size_t length) {
    token_ = token;
    word_ = rest.substr(0, length);
    position_ += length;
  };
  if (rest.empty()) return take(Token::kEnd, 0);
  const char c = rest.front();
  if (c == '(') return take(Token::kOpen, 1);
  if (c == ')') return take(Token::kClose, 1);
  if (c == '<' || c == '>' || c == '=' || c == '!') {
    return take(Token::kOperator, rest.size() > 1 && rest[1] == '=' ? 2 : 1);
  }
  if (const size_t length = NumberLength(); length > 0) {
    return take(Token::kNumber, length);
  }
  size_t length = 0;
  while (length < rest.size() &&
         (IsLetter(rest[length]) || IsDigit(rest[length]))) {
    ++length;
  }
  if (length > 0) {
    // A word that begins with a digit, such as `1x`, is not a name.
    return take(IsDigit(c) ? Token::kUnknown : Token::kName, length);
  }
  take(Token::kUnknown, 1);
}

// Returns the length of a number at the current position: [+-] (inf | digits [.
// digits] | . digits) [e [+-] digits] [unit], not followed by a letter, digit
// or dot. Returns 0 if there is none.
size_t PredicateParser::NumberLength() const {
  const std::string_view rest = text_.substr(position_);
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < rest.size() && IsDigit(rest[at])) ++at;
    return at > begin;
  };
  const auto is = [&](char c) { return at < rest.size() && rest[at] == c; };
  if (is('+') || is('-')) ++at;
  if (rest.substr(at, 3) == "inf") {
    at += 3;
  } else {
    bool any = digits();
    if (is('.')) {
      ++at;
      any = digits() || any;
    }
    if (!any) return 0;
    if (is('e') || is('E')) {
      ++at;
      if (is('+') || is('-')) ++at;
      if (!digits()) return 0;
    }
  }
  if (PowerAtEnd(rest.substr(0, at + kUnitBytes)) > 0) at += kUnitBytes;
  const bool ends = at == rest.size() ||
                    (!IsLetter(rest[at]) && !IsDigit(rest[at]) && !is('.'));
  return ends ? at : 0;
}

uint32_t PredicateParser::AddNode(Predicate::Node node) {
  out_.nodes_.push_back(node);
  return static_cast<uint32_t>(out_.nodes_.size() - 1);
}

absl::Status PredicateParser::Expected(std::string_view what) const {
  std::string problem = fmt::format(
      "expected {}, found {}", what,
      token_ == Token::kEnd ? std::string("the end") : Quoted(word_));
  const std::string_view rest =
      text_.substr(static_cast<size_t>(word_.data() - text_.data()));
  // A swapped `<=` is not a single `=`.
  const bool is_swapped = rest.starts_with("=<") || rest.starts_with("=>");
  if (word_ == "&" || word_ == "|" || word_ == "!" ||
      (word_ == "=" && !is_swapped)) {
    problem += fmt::format("; write {}", word_ == "&"   ? "and"
                                         : word_ == "|" ? "or"
                                         : word_ == "!" ? "not"
                                                        : "==");
  }
  return ErrorAt(word_.data() - text_.data(), problem);
}

absl::Status PredicateParser::ErrorAt(size_t offset,
                                      std::string_view problem) const {
  return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                               "predicate, column {}: {}", offset + 1, problem),
                    ErrorReason::kPredicateInvalid);
}

std::string PredicateParser::NameList() const {
  return fmt::format("{}", fmt::join(names_, ", "));
}

}  // namespace msitd::predicate
