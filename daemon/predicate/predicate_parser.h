// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/predicate/predicate.h"

namespace msitd::predicate {

// Parses one predicate by recursive descent. The recursion depth is bounded by
// kPredicateDepthMax. See predicate.h for the contract.
class PredicateParser {
 public:
  PredicateParser(std::string_view text,
                  std::span<const std::string_view> names);

  absl::StatusOr<Predicate> Parse();

 private:
  enum class Token : uint8_t {
    kEnd,
    kName,
    kNumber,
    kOperator,
    kOpen,
    kClose,
    kUnknown,
  };

  // Each of these returns the index of the node that it created.
  absl::StatusOr<uint32_t> ParseOr(int depth);
  absl::StatusOr<uint32_t> ParseAnd(int depth);
  absl::StatusOr<uint32_t> ParseNot(int depth);
  absl::StatusOr<uint32_t> ParseComparison();
  absl::StatusOr<Predicate::Operand> ParseOperand();
  absl::StatusOr<Predicate::Operator> ParseOperator();

  // Reads the next token into token_ and word_.
  void Advance();
  size_t NumberLength() const;
  bool AtWord(std::string_view word) const {
    return token_ == Token::kName && word_ == word;
  }
  uint32_t AddNode(Predicate::Node node);

  absl::Status Expected(std::string_view what) const;
  absl::Status ErrorAt(size_t offset, std::string_view problem) const;
  std::string NameList() const;

  const std::string_view text_;
  const std::span<const std::string_view> names_;
  Predicate out_;
  size_t position_ = 0;  // The end of word_.
  Token token_ = Token::kEnd;
  std::string_view word_;  // Part of text_.
};

}  // namespace msitd::predicate
