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

// Limits of a policy. The bytes are those of patterns and predicates. Their
// limit keeps a comparison, which contains its policy, below the message size
// of gRPC.
inline constexpr size_t kPolicyRulesMax = 1024;
inline constexpr size_t kPolicyBytesMax = size_t{1} << 20;

// Applies a tolerance to the tensors that match a TensorPattern or, with
// `is_regex`, to the ops that match an RE2 expression. The tolerance is a
// preset, or at least one of `predicate`, `rtol` and `atol`.
struct PolicyRule {
  std::string op_pattern;
  std::string predicate = {};
  bool is_regex = false;
  Preset preset = Preset::kDefault;
  std::optional<double> rtol = {};
  std::optional<double> atol = {};
};

// Determines which shapes may be compared: equal ones (kExact), those that are
// equal without dimensions of size 1 (kSqueeze), or those with the same number
// of elements (kCount). kOfPreset stands for the rule of the preset.
enum class ShapeRule { kOfPreset, kExact, kSqueeze, kCount };

// A policy before validation. The fields are those of v1::Policy.
struct PolicySpec {
  std::vector<PolicyRule> rules;
  Preset preset = Preset::kDefault;
  ShapeRule shape_rule = ShapeRule::kOfPreset;
  uint32_t metric_sets = 0;  // compute::MetricSet
  int top_k = 5;
  std::vector<std::string> allow_unmatched = {};
};

// The condition that one pair must satisfy.
struct Verification {
  int rule = -1;  // -1 if no rule matches and the preset decides.
  const predicate::Predicate* predicate = nullptr;
  // The metric sets to compute, and the tolerance if they include
  // kToleranceSet.
  compute::ElementRequest request;
  // True if the preset kDefault decides.
  bool is_default = false;
  // True if the pair would have another condition without its basis.
  bool is_by_basis = false;
  // True if different hashes prove that the pair fails, so that its bytes need
  // not be read. Applies to sides of equal types only.
  bool hash_decides = false;
  // True if statistics with different checksums fail, even if the others agree.
  bool checksums_decide = false;
};

// Determines the condition that a pair must satisfy. The first rule that
// matches the tensor decides. If no rule matches, the preset of the policy
// decides.
//
// Immutable, hence thread-safe.
class Policy {
 public:
  // A policy without rules and with the preset kDefault.
  Policy() = default;

  // Errors: INVALID_ARGUMENT with PREDICATE_INVALID or FIELD_INVALID if a field
  // is invalid or a limit is exceeded. The message begins with the field, such
  // as `policy.rules[2]: ...`.
  static absl::StatusOr<Policy> Create(const PolicySpec& spec);
  static absl::StatusOr<Policy> Create(std::span<const PolicyRule> rules);

  // Returns the condition that a pair must satisfy. `key` is that of the golden
  // tensor. Presets use the coarsest of `target`, `golden` and the type of
  // `basis`, and `form`. The predicate expects the values of a RowMetrics. The
  // result is valid as long as the policy.
  Verification VerificationFor(const TensorKey& key, DType target, DType golden,
                               const Basis& basis = {},
                               PairForm form = PairForm::kTensors) const;

  // Returns the number of rules. They are numbered in their order, from 0.
  size_t rule_count() const { return rules_.size(); }
  // Returns whether a rule can apply to some tensor of the op.
  bool MatchesOp(size_t rule, std::string_view op) const;
  // Returns a rule in the syntax of the flag --rule of msitctl, such as
  // `head: nl2 <= 1e-9`.
  std::string RuleText(size_t rule) const;

  // The tensors that are allowed to exist in only one run.
  const UnmatchedRules& unmatched_rules() const { return unmatched_rules_; }

  // Returns the rule for shapes; never kOfPreset.
  ShapeRule shape_rule() const;

 private:
  struct Rule {
    std::string op_pattern;
    std::optional<TensorPattern> pattern;           // Absent for an expression.
    std::shared_ptr<const re2::RE2> regex;          // Null for a pattern.
    std::optional<predicate::Predicate> predicate;  // Absent for a preset.
    Preset preset = Preset::kDefault;
    double rtol = 0;
    double atol = 0;
    uint32_t sets = 0;
    std::string tolerance;  // In the syntax of --rule.
  };

  static bool Matches(const Rule& rule, const TensorKey& key);
  static absl::StatusOr<Rule> MakeRule(const PolicyRule& rule,
                                       const std::string& field);
  Verification OfPreset(Preset preset, DType target, DType golden,
                        const Basis& basis, PairForm form) const;

  std::vector<Rule> rules_;
  Preset preset_ = Preset::kDefault;
  ShapeRule shape_rule_ = ShapeRule::kOfPreset;
  uint32_t metric_sets_ = 0;
  int top_k_ = 5;
  UnmatchedRules unmatched_rules_;
};

}  // namespace msitd::compare
