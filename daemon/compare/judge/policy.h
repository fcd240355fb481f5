// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/preset.h"
#include "daemon/compare/judge/tensor_pattern.h"
#include "daemon/compare/judge/unmatched_rules.h"
#include "daemon/compute/element_metrics.h"
#include "daemon/predicate/predicate.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace re2 {
class RE2;
}

namespace msitd::compare {

// A policy with more rules, or more bytes in them, is refused. The bytes keep
// a comparison, which carries its policy, below the message size of gRPC.
inline constexpr size_t kPolicyRulesMax = 1024;
inline constexpr size_t kPolicyBytesMax = size_t{1} << 20;

// Applies a tolerance to the tensors that match a TensorPattern, or to the ops
// that match an RE2 expression. The tolerance is a predicate with or without
// rtol and atol, or only these, or a preset.
struct PolicyRule {
  std::string op_pattern;
  std::string predicate = {};
  bool is_regex = false;
  Preset preset = Preset::kDefault;
  std::optional<double> rtol = {};
  std::optional<double> atol = {};
};

// Which shapes may be compared.
enum class ShapeRule { kOfPreset, kExact, kSqueeze, kCount };

struct PolicySpec {
  std::vector<PolicyRule> rules;
  Preset preset = Preset::kDefault;
  ShapeRule shape_rule = ShapeRule::kOfPreset;
  uint32_t metric_sets = 0;  // compute::MetricSet
  int top_k = 5;
  std::vector<std::string> allow_unmatched = {};
};

// What one pair must satisfy.
struct Verification {
  int rule = -1;  // -1: no rule matches, so the preset decides.
  const predicate::Predicate* predicate = nullptr;
  // The metric sets of the pair, and the tolerance if kToleranceSet is one.
  compute::ElementRequest request;
  // The preset kDefault decides.
  bool is_default = false;
  // It is another one than that for the types of the pair alone.
  bool is_by_basis = false;
  // True if hashes that differ decide without the bytes, for equal types.
  bool hash_decides = false;
};

// Says what passes. The first rule that matches the op decides, or else a
// preset.
//
// Immutable, hence thread-safe.
class Policy {
 public:
  // The defaults alone.
  Policy() = default;

  // Errors: INVALID_ARGUMENT with PREDICATE_INVALID or FIELD_INVALID; the
  // message begins with the rule: `policy.rules[2]: ...`.
  static absl::StatusOr<Policy> Create(const PolicySpec& spec);
  static absl::StatusOr<Policy> Create(std::span<const PolicyRule> rules);

  // Returns the condition that a pair must satisfy. `key` is the golden tensor.
  // Presets are for the
  // coarsest of both types and of `basis`. The values of the predicate are a
  // RowMetrics. Lives as long as the policy.
  Verification VerificationFor(const TensorKey& key, DType target, DType golden,
                               const Basis& basis = {}) const;

  // The rules, in their order. MatchesOp says whether a rule is for some tensor
  // of an op.
  // RuleText is the rule as the flag of msitctl takes it, such as
  // `head: nl2 <= 1e-9`.
  size_t rule_count() const { return rules_.size(); }
  bool MatchesOp(size_t rule, std::string_view op) const;
  std::string RuleText(size_t rule) const;

  // Which tensors either run may have alone.
  const UnmatchedRules& unmatched_rules() const { return unmatched_rules_; }

  // Never kOfPreset.
  ShapeRule shape_rule() const;

 private:
  struct Rule {
    std::string op_pattern;
    std::optional<TensorPattern> pattern;           // None for an expression.
    std::shared_ptr<const re2::RE2> regex;          // Null for a pattern.
    std::optional<predicate::Predicate> predicate;  // None for a preset.
    Preset preset = Preset::kDefault;
    double rtol = 0;
    double atol = 0;
    uint32_t sets = 0;
    std::string tolerance;  // As it was given.
  };

  static bool Matches(const Rule& rule, const TensorKey& key);
  static absl::StatusOr<Rule> MakeRule(const PolicyRule& rule,
                                       const std::string& field);
  Verification OfPreset(Preset preset, DType target, DType golden,
                        const Basis& basis) const;

  std::vector<Rule> rules_;
  Preset preset_ = Preset::kDefault;
  ShapeRule shape_rule_ = ShapeRule::kOfPreset;
  uint32_t metric_sets_ = 0;
  int top_k_ = 5;
  UnmatchedRules unmatched_rules_;
};

}  // namespace msitd::compare
