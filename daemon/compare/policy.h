// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/predicate.h"
#include "protos/base/dtype.h"

namespace msitd::compare {

// A policy with more rules, or more bytes in them, is refused. The bytes keep
// a comparison, which carries its policy, below the message size of gRPC.
inline constexpr size_t kPolicyRulesMax = 1024;
inline constexpr size_t kPolicyBytesMax = size_t{1} << 20;

// Applies a predicate to the ops that match a GlobMatch pattern.
struct PolicyRule {
  std::string op_pattern;
  std::string predicate;
};

// What passes: rules by op, of which the first that matches decides, and a
// default for every element type behind them.
//
// Immutable, hence thread-safe.
class Policy {
 public:
  // The defaults alone.
  Policy() = default;

  // Errors: INVALID_ARGUMENT with PREDICATE_INVALID or FIELD_INVALID; the
  // message begins with the rule: `policy.rules[2]: ...`.
  static absl::StatusOr<Policy> Create(std::span<const PolicyRule> rules);

  // Returns what a pair of tensors of `op` must satisfy. The values of the
  // predicate are a RowMetrics. Lives as long as the policy.
  const Predicate& PredicateFor(std::string_view op, DType target,
                                DType golden) const;

 private:
  struct Rule {
    std::string op_pattern;
    Predicate predicate;
  };

  std::vector<Rule> rules_;
};

// Returns the default predicate for the looser of two valid element types;
// docs/predicates.md has the table and the reasons. Lives as long as the
// process.
const Predicate& DefaultPredicate(DType target, DType golden);

}  // namespace msitd::compare
