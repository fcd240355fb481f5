// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flag/policy_flags.h"

#include <fmt/format.h>

#include "client/ctl/flag/selection.h"
#include "client/text/policy_text.h"
#include "client/text/ranges.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

constexpr int kTopKMax = 64;

absl::StatusOr<v1::Policy::MetricSet> ParseMetricSet(std::string_view word) {
  for (int i = 1; i < v1::Policy::MetricSet_ARRAYSIZE; ++i) {
    const auto set = static_cast<v1::Policy::MetricSet>(i);
    if (WordOf(v1::Policy::MetricSet_Name(set)) == word) return set;
  }
  // The formats of reports, without the end that keeps them apart from presets.
  if (word == "msit") return v1::Policy::MSIT_METRICS;
  if (word == "msprobe") return v1::Policy::MSPROBE_METRICS;
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "\"{}\" is not ulp, shares, percentiles, pearson, bits, "
                    "top-k, msit or msprobe",
                    word);
}

Outcome AddRules(const PolicyFlags& flags, v1::Policy& policy) {
  for (const std::string& text : flags.rules) {
    const auto rule = ParseRule(text);
    if (!rule.ok()) {
      return UsageError(fmt::format("--rule: {}", Message(rule.status())));
    }
    *policy.add_rules() = *rule;
  }
  if (!flags.policy_file.empty()) {
    const auto file = ReadPolicyFile(flags.policy_file);
    if (!file.ok()) {
      const std::string text =
          fmt::format("--policy: {}", Message(file.status()));
      return absl::IsInvalidArgument(file.status()) ? UsageError(text)
                                                    : LocalError(text);
    }
    policy.MergeFrom(*file);
  }
  if (!flags.tolerance.empty()) {
    const auto rule = ParseRule("*: " + flags.tolerance);
    if (!rule.ok()) {
      return UsageError(fmt::format("--tol: {}", Message(rule.status())));
    }
    *policy.add_rules() = *rule;
  }
  if (policy.rules_size() > kPolicyRulesMax) {
    return UsageError(
        fmt::format("more than {} rules in the policy", kPolicyRulesMax));
  }
  return {};
}

}  // namespace

void AddPolicyFlags(CLI::App& verb, PolicyFlags& flags) {
  AddTexts(verb, "--rule", flags.rules,
           "Tolerance for some ops; the first that matches decides; repeatable")
      ->type_name("'PATTERN: TOLERANCE'");
  verb.add_option("--policy", flags.policy_file,
                  "File of rules: a PATTERN: TOLERANCE a line, or JSON; after "
                  "--rule")
      ->type_name("FILE");
  verb.add_option("--tol", flags.tolerance,
                  "Tolerance for all ops that no rule is for, such as 'cosine "
                  ">= 0.999 and max_abs <= 1e-2' or 'rtol=1e-3 atol=1e-5'")
      ->type_name("TOLERANCE");
  verb.add_option("--preset", flags.preset,
                  "What decides where no rule matches: torch, polygraphy, "
                  "sglang, msit, msprobe, bitwise, fp8")
      ->type_name("NAME");
  AddTexts(verb, "--metrics", flags.metrics,
           "Sets measured beside the usual: ulp, shares, percentiles, pearson, "
           "bits, top-k, msit, msprobe")
      ->type_name("LIST");
  verb.add_option("--shapes", flags.shapes,
                  "Shapes that may be compared: exact, squeeze (but for "
                  "dimensions of 1), count (equally many elements)")
      ->type_name("RULE");
  AddTexts(verb, "--allow-unmatched", flags.allow_unmatched,
           "Tensors that either run may have alone: ops, with @IO or "
           "@IO/INDEX these of them only, or @sdpa-eager for what fused "
           "attention leaves out; repeatable")
      ->type_name("'PATTERN[@IO[/INDEX]]'");
  verb.add_option("--top-k", flags.top_k,
                  "Elements that top_k_overlap looks at; default 5")
      ->type_name("K")
      ->check(CLI::Range(1, kTopKMax));
}

Outcome ToPolicy(const PolicyFlags& flags, v1::Policy& policy) {
  MSITCTL_RETURN_IF_FAILED(AddRules(flags, policy));
  if (!flags.preset.empty()) {
    const auto preset = ParsePreset(flags.preset);
    if (!preset.ok()) {
      return UsageError(fmt::format("--preset: {}", Message(preset.status())));
    }
    policy.set_preset(*preset);
  }
  for (const std::string& word : SplitLists(flags.metrics)) {
    const auto set = ParseMetricSet(word);
    if (!set.ok()) {
      return UsageError(fmt::format("--metrics: {}", Message(set.status())));
    }
    policy.add_metric_sets(*set);
  }
  if (flags.shapes == "exact") {
    policy.set_shape_rule(v1::Policy::EXACT);
  } else if (flags.shapes == "squeeze") {
    policy.set_shape_rule(v1::Policy::SQUEEZE);
  } else if (flags.shapes == "count") {
    policy.set_shape_rule(v1::Policy::COUNT);
  } else if (!flags.shapes.empty()) {
    return UsageError(fmt::format(
        "--shapes: \"{}\" is not exact, squeeze or count", flags.shapes));
  }
  for (const std::string& text : flags.allow_unmatched) {
    policy.add_allow_unmatched(text);
  }
  if (flags.top_k != 0) policy.set_top_k(flags.top_k);
  return {};
}

}  // namespace msitd::ctl
