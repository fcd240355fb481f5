// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/compare/row_metrics.h"
#include "protos/base/check.h"
#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// From strict to loose. A complex type counts as its components' type.
enum class Looseness {
  kExact,
  kFloat64,
  kFloat32,
  kFloat16,
  kBfloat16,
  kFloat8E4m3fn,
  kFloat8E5m2,
};
constexpr int kLoosenessCount = 7;

Looseness LoosenessOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128:
      return Looseness::kFloat64;
    case DType::kFloat32:
    case DType::kComplex64:
      return Looseness::kFloat32;
    case DType::kFloat16:
      return Looseness::kFloat16;
    case DType::kBfloat16:
      return Looseness::kBfloat16;
    case DType::kFloat8E4m3fn:
      return Looseness::kFloat8E4m3fn;
    case DType::kFloat8E5m2:
      return Looseness::kFloat8E5m2;
    default:
      return Looseness::kExact;
  }
}

Predicate Trusted(const std::string& text) {
  auto predicate = Predicate::Parse(text, MetricNames());
  MSITD_CHECK(predicate.ok());
  return *std::move(predicate);
}

// The bounded comparisons come first, so that a failure names them and not
// the count of elements that differ.
Predicate Bounded(std::string_view nl2, std::string_view scaled_max_abs) {
  return Trusted(
      fmt::format("nan_mismatch_count == 0 and inf_mismatch_count == 0 and "
                  "nl2 <= {} and scaled_max_abs <= {} or mismatch_count == 0",
                  nl2, scaled_max_abs));
}

absl::Status FieldInvalid(const std::string& field, std::string_view problem) {
  return WithMetadata(WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                            "{}: {}", field, problem),
                                 "FIELD_INVALID"),
                      "field", field);
}

}  // namespace

absl::StatusOr<Policy> Policy::Create(std::span<const PolicyRule> rules) {
  if (rules.size() > kPolicyRulesMax) {
    return FieldInvalid(
        "policy.rules",
        fmt::format("{} rules, at most {}", rules.size(), kPolicyRulesMax));
  }
  Policy out;
  size_t bytes = 0;
  for (size_t i = 0; i < rules.size(); ++i) {
    const PolicyRule& rule = rules[i];
    const std::string field = fmt::format("policy.rules[{}]", i);
    if (rule.op_pattern.empty() || rule.op_pattern.size() > kOpBytesMax) {
      return FieldInvalid(
          field + ".op_pattern",
          fmt::format("{} bytes, needs 1 to {}; * stands for all ops",
                      rule.op_pattern.size(), kOpBytesMax));
    }
    bytes += rule.op_pattern.size() + rule.predicate.size();
    if (bytes > kPolicyBytesMax) {
      return FieldInvalid(
          field, fmt::format("the policy has more than {} bytes up to here",
                             kPolicyBytesMax));
    }
    auto predicate = Predicate::Parse(rule.predicate, MetricNames());
    if (!predicate.ok()) {
      return WithMetadata(Annotate(predicate.status(), field), "field", field);
    }
    out.rules_.push_back({rule.op_pattern, *std::move(predicate)});
  }
  return out;
}

const Predicate& Policy::PredicateFor(std::string_view op, DType target,
                                      DType golden) const {
  for (const Rule& rule : rules_) {
    if (GlobMatch(rule.op_pattern, op)) return rule.predicate;
  }
  return DefaultPredicate(target, golden);
}

const Predicate& DefaultPredicate(DType target, DType golden) {
  // In the order of Looseness.
  static const std::array<Predicate, kLoosenessCount> predicates = {
      Trusted("mismatch_count == 0"), Bounded("1e-7", "1e-7"),
      Bounded("1e-4", "1e-4"),        Bounded("1e-2", "2e-2"),
      Bounded("5e-2", "1e-1"),        Bounded("1.25e-1", "2.5e-1"),
      Bounded("2.5e-1", "5e-1"),
  };
  const Looseness looser = std::max(LoosenessOf(target), LoosenessOf(golden));
  return predicates[static_cast<size_t>(looser)];
}

}  // namespace msitd::compare
