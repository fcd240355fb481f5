// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/policy.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "daemon/compare/judge/row_metrics.h"
#include "msitd/v1/comparison_policy.pb.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Maximum memory of one compiled expression. RE2 matches in linear time within
// it.
constexpr int64_t kRegexBytesMax = int64_t{256} << 10;

absl::StatusOr<std::shared_ptr<const re2::RE2>> Compile(
    const std::string& text, const std::string& field) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kRegexBytesMax);
  auto regex = std::make_shared<const re2::RE2>(text, options);
  if (regex->ok()) return regex;
  return FieldInvalid(field, regex->error());
}

// Returns the tolerance of a rule in the syntax of --rule, after the pattern.
std::string ToleranceText(const PolicyRule& rule) {
  if (rule.preset != Preset::kDefault) {
    return "@" + absl::AsciiStrToLower(v1::Policy::Preset_Name(
                     static_cast<v1::Policy::Preset>(rule.preset)));
  }
  std::vector<std::string> parts;
  if (rule.rtol.has_value())
    parts.push_back(fmt::format("rtol={}", *rule.rtol));
  if (rule.atol.has_value())
    parts.push_back(fmt::format("atol={}", *rule.atol));
  if (!rule.predicate.empty()) parts.push_back(rule.predicate);
  return fmt::format("{}", fmt::join(parts, " "));
}

absl::Status CheckTolerance(const PolicyRule& rule, const std::string& field) {
  for (const auto& [name, value] :
       {std::pair("rtol", rule.rtol), std::pair("atol", rule.atol)}) {
    if (value.has_value() && !(*value >= 0 && std::isfinite(*value))) {
      return FieldInvalid(
          fmt::format("{}.{}", field, name),
          fmt::format("{} is not a finite number from 0 on", *value));
    }
  }
  const bool has_tolerance = rule.rtol.has_value() || rule.atol.has_value();
  if (rule.preset != Preset::kDefault &&
      (has_tolerance || !rule.predicate.empty())) {
    return FieldInvalid(field + ".preset",
                        "does not go with predicate, rtol or atol");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Policy> Policy::Create(std::span<const PolicyRule> rules) {
  PolicySpec spec;
  spec.rules.assign(rules.begin(), rules.end());
  return Create(spec);
}

absl::StatusOr<Policy> Policy::Create(const PolicySpec& spec) {
  if (spec.rules.size() > kPolicyRulesMax) {
    return FieldInvalid("policy.rules",
                        fmt::format("{} rules, at most {}", spec.rules.size(),
                                    kPolicyRulesMax));
  }
  if (spec.top_k < 1 || spec.top_k > compute::kTopKMax) {
    return FieldInvalid(
        "policy.top_k",
        fmt::format("{} is not in 1 to {}", spec.top_k, compute::kTopKMax));
  }
  Policy out;
  out.preset_ = spec.preset;
  out.shape_rule_ = spec.shape_rule;
  out.metric_sets_ = spec.metric_sets;
  out.top_k_ = spec.top_k;
  MSITD_ASSIGN_OR_RETURN(out.unmatched_rules_,
                         UnmatchedRules::Create(spec.allow_unmatched));
  size_t bytes = 0;
  for (size_t i = 0; i < spec.rules.size(); ++i) {
    const PolicyRule& rule = spec.rules[i];
    const std::string field = fmt::format("policy.rules[{}]", i);
    bytes += rule.op_pattern.size() + rule.predicate.size();
    if (bytes > kPolicyBytesMax) {
      return FieldInvalid(
          field, fmt::format("the policy has more than {} bytes up to here",
                             kPolicyBytesMax));
    }
    MSITD_ASSIGN_OR_RETURN(Rule made, MakeRule(rule, field));
    out.rules_.push_back(std::move(made));
  }
  return out;
}

absl::StatusOr<Policy::Rule> Policy::MakeRule(const PolicyRule& rule,
                                              const std::string& field) {
  const std::string pattern_field =
      field + (rule.is_regex ? ".op_regex" : ".op_pattern");
  if (rule.op_pattern.empty() || rule.op_pattern.size() > kOpBytesMax) {
    return FieldInvalid(
        pattern_field,
        fmt::format("{} bytes, needs 1 to {}; * stands for all ops",
                    rule.op_pattern.size(), kOpBytesMax));
  }
  Rule out;
  out.op_pattern = rule.op_pattern;
  if (!rule.is_regex) out.pattern = TensorPattern::Parse(rule.op_pattern);
  if (!rule.is_regex && !out.pattern.has_value()) {
    return FieldInvalid(pattern_field, "no pattern of ops before @");
  }
  out.preset = rule.preset;
  out.rtol = rule.rtol.value_or(0);
  out.atol = rule.atol.value_or(0);
  if (rule.is_regex) {
    MSITD_ASSIGN_OR_RETURN(out.regex, Compile(rule.op_pattern, pattern_field));
  }
  MSITD_RETURN_IF_ERROR(CheckTolerance(rule, field));
  out.tolerance = ToleranceText(rule);
  if (rule.preset != Preset::kDefault) return out;
  const bool has_tolerance = rule.rtol.has_value() || rule.atol.has_value();
  const bool by_tolerance = has_tolerance && rule.predicate.empty();
  auto predicate = predicate::Predicate::Parse(
      by_tolerance ? "outlier_count == 0" : std::string_view(rule.predicate),
      MetricNames());
  if (!predicate.ok()) {
    return WithMetadata(Annotate(predicate.status(), field), "field", field);
  }
  out.sets = SetsOf(*predicate);
  if (has_tolerance) out.sets |= compute::kToleranceSet;
  if ((out.sets & compute::kToleranceSet) != 0 && !has_tolerance) {
    return FieldInvalid(field + ".predicate",
                        "outlier_count, atol_needed and rtol_needed need rtol "
                        "or atol in the rule");
  }
  out.predicate = *std::move(predicate);
  return out;
}

bool Policy::MatchesOp(size_t rule, std::string_view op) const {
  const Rule& of = rules_[rule];
  if (of.pattern.has_value()) return of.pattern->MatchesOp(op);
  return re2::RE2::FullMatch(re2::StringPiece(op.data(), op.size()), *of.regex);
}

bool Policy::Matches(const Rule& rule, const TensorKey& key) {
  if (rule.pattern.has_value()) {
    return rule.pattern->Matches(key.op, key.io, key.index);
  }
  return re2::RE2::FullMatch(re2::StringPiece(key.op.data(), key.op.size()),
                             *rule.regex);
}

std::string Policy::RuleText(size_t rule) const {
  const Rule& of = rules_[rule];
  const std::string_view slash = of.regex == nullptr ? "" : "/";
  return fmt::format("{}{}{}: {}", slash, of.op_pattern, slash, of.tolerance);
}

Verification Policy::VerificationFor(const TensorKey& key, DType target,
                                     DType golden, const Basis& basis,
                                     PairForm form) const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if (!Matches(rule, key)) continue;
    Verification out;
    if (rule.predicate.has_value()) {
      out.predicate = &*rule.predicate;
      out.request.sets = rule.sets | metric_sets_;
      out.request.rtol = rule.rtol;
      out.request.atol = rule.atol;
      out.request.top_k = top_k_;
    } else {
      out = OfPreset(rule.preset, target, golden, basis, form);
    }
    out.rule = static_cast<int>(i);
    return out;
  }
  return OfPreset(preset_, target, golden, basis, form);
}

Verification Policy::OfPreset(Preset preset, DType target, DType golden,
                              const Basis& basis, PairForm form) const {
  const PresetTolerance tolerance =
      ToleranceOf(preset, target, golden, basis, form);
  Verification out;
  out.predicate = tolerance.predicate;
  if (basis != Basis()) {
    const PresetTolerance plain =
        ToleranceOf(preset, target, golden, Basis(), form);
    out.is_by_basis = tolerance.predicate != plain.predicate ||
                      tolerance.rtol != plain.rtol ||
                      tolerance.atol != plain.atol;
  }
  out.request.sets = tolerance.sets | metric_sets_;
  out.request.rtol = tolerance.rtol;
  out.request.atol = tolerance.atol;
  out.request.either = tolerance.either;
  out.request.top_k = top_k_;
  // Integers have only one representation, and these policies require them to
  // be equal.
  const bool is_exact =
      (preset == Preset::kDefault ||
       (preset == Preset::kMsprobe && form != PairForm::kValues)) &&
      target == golden && !IsFloatingPoint(target) && !IsComplex(target);
  out.hash_decides = preset == Preset::kBitwise || is_exact;
  out.checksums_decide = preset == Preset::kMsprobe;
  out.is_default = preset == Preset::kDefault;
  return out;
}

ShapeRule Policy::shape_rule() const {
  if (shape_rule_ != ShapeRule::kOfPreset) return shape_rule_;
  switch (preset_) {
    case Preset::kMsit:
      return ShapeRule::kCount;
    case Preset::kMsprobe:
    case Preset::kSglang:
      return ShapeRule::kSqueeze;
    default:
      return ShapeRule::kExact;
  }
}

}  // namespace msitd::compare
