// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/policy_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "client/ask/text/policy_text.h"
#include "client/ask/text/ranges.h"
#include "client/ask/text/text.h"
#include "client/msitctl/flag/field_flags.h"
#include "client/msitctl/flag/not_empty.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr int kTopKMax = 64;

absl::StatusOr<v1::Policy::MetricSet> ParseMetricSet(std::string_view word) {
  for (int i = 1; i < v1::Policy::MetricSet_ARRAYSIZE; ++i) {
    const auto set = static_cast<v1::Policy::MetricSet>(i);
    if (ask::WordOf(v1::Policy::MetricSet_Name(set)) == word) return set;
  }
  // The names are those of the report formats. Enum values end with `_METRICS`
  // to distinguish them from presets.
  if (word == "msit") return v1::Policy::MSIT_METRICS;
  if (word == "msprobe") return v1::Policy::MSPROBE_METRICS;
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "\"{}\" is not ulp, shares, percentiles, pearson, bits, "
                    "top-k, msit or msprobe",
                    word);
}

std::vector<std::string> PresetWords() {
  std::vector<std::string> words;
  for (int i = 1; i < v1::Policy::Preset_ARRAYSIZE; ++i) {
    words.push_back(ask::WordOf(
        v1::Policy::Preset_Name(static_cast<v1::Policy::Preset>(i))));
  }
  return words;
}

// Returns true if `predicate` requires `name` to exceed a number.
bool AsksForMore(std::string_view predicate, std::string_view name) {
  for (size_t at = predicate.find(name); at != std::string_view::npos;
       at = predicate.find(name, at + 1)) {
    const std::string_view before = predicate.substr(0, at);
    std::string_view behind = predicate.substr(at + name.size());
    const bool begins =
        before.empty() || before.back() == ' ' || before.back() == '(';
    if (!begins || before.ends_with("not ")) continue;
    behind.remove_prefix(
        std::min(behind.find_first_not_of(' '), behind.size()));
    if (behind.starts_with('>')) return true;
  }
  return false;
}

ask::Outcome AddRules(const PolicyFlags& flags, v1::Policy& policy,
                      std::vector<std::string>& sources) {
  for (const std::string& text : flags.rules) {
    const auto rule = ask::ParseRule(text);
    if (!rule.ok()) {
      return ask::UsageError(fmt::format("--rule: {}", Message(rule.status())));
    }
    *policy.add_rules() = *rule;
    sources.push_back(FlagText("--rule", text));
  }
  if (!flags.policy_file.empty()) {
    std::vector<int> lines;
    const auto file = ask::ReadPolicyFile(flags.policy_file, &lines);
    if (!file.ok()) {
      const std::string text =
          fmt::format("--policy: {}", Message(file.status()));
      return absl::IsInvalidArgument(file.status()) ? ask::UsageError(text)
                                                    : ask::LocalError(text);
    }
    policy.MergeFrom(*file);
    for (size_t i = 0; i < lines.size(); ++i) {
      sources.push_back(
          lines[i] == 0
              ? fmt::format("--policy {}, rules[{}]", flags.policy_file, i)
              : fmt::format("--policy {}, line {}", flags.policy_file,
                            lines[i]));
    }
  }
  if (!flags.tolerance.empty()) {
    const auto rule = ask::ParseRule("*: " + flags.tolerance);
    if (!rule.ok()) {
      return ask::UsageError(fmt::format("--tol: {}", Message(rule.status())));
    }
    *policy.add_rules() = *rule;
    sources.push_back(FlagText("--tol", flags.tolerance));
  }
  if (policy.rules_size() > ask::kPolicyRulesMax) {
    return ask::UsageError(
        fmt::format("the policy has more than {} rules", ask::kPolicyRulesMax));
  }
  return {};
}

}  // namespace

void AddToleranceFlags(CLI::App& verb, PolicyFlags& flags) {
  AddTexts(
      verb, "--rule", flags.rules,
      "Tolerance for some ops. Repeatable; the first one that matches applies")
      ->type_name("'PATTERN: TOLERANCE'");
  verb.add_option("--policy", flags.policy_file,
                  "File of rules, applied after --rule: one PATTERN: TOLERANCE "
                  "per line, or JSON")
      ->check(NotEmpty())
      ->type_name("FILE");
  verb.add_option("--tol", flags.tolerance,
                  "Tolerance for ops without a rule, such as 'cosine >= 0.999 "
                  "and max_abs <= 1e-2' or 'rtol=1e-3 atol=1e-5'")
      ->check(NotEmpty())
      ->type_name("TOLERANCE");
  verb.add_option("--preset", flags.preset,
                  "Tolerances for ops without a rule: torch, polygraphy, "
                  "sglang, msit, msprobe, bitwise, fp8")
      ->check(OneOf(PresetWords()))
      ->type_name("NAME");
  verb.add_option(
          "--shapes", flags.shapes,
          "Which shapes to compare: exact (equal shapes), squeeze (equal "
          "without dimensions of 1), count (equal numbers of elements)")
      ->check(OneOf({"exact", "squeeze", "count"}))
      ->type_name("RULE");
}

void AddPolicyFlags(CLI::App& verb, PolicyFlags& flags) {
  AddToleranceFlags(verb, flags);
  AddTexts(verb, "--metrics", flags.metrics,
           "Additional sets of metrics to measure: ulp, shares, percentiles, "
           "pearson, bits, top-k, msit, msprobe")
      ->check(ListOf({"ulp", "shares", "percentiles", "pearson", "bits",
                      "top-k", "msit", "msprobe"}))
      ->type_name("LIST");
  AddTexts(verb, "--allow-unmatched", flags.allow_unmatched,
           "Tensors that may exist in only one run: OPS selects all tensors of "
           "these ops, OPS@IO or OPS@IO/INDEX only some, @sdpa-eager those "
           "that fused attention does not compute. Repeatable")
      ->type_name("'PATTERN[@IO[/INDEX]]'");
  verb.add_option("--top-k", flags.top_k,
                  "Number of elements that top_k_overlap compares; default 5")
      ->type_name("K")
      ->check(WholeNumber(1, kTopKMax));
}

void WarnOfDirections(const v1::Policy& policy,
                      const std::vector<std::string>& rule_sources,
                      const std::vector<v1::Metric>& metrics) {
  for (int i = 0; i < policy.rules_size(); ++i) {
    for (const v1::Metric& metric : metrics) {
      if (metric.direction() != v1::Metric::LOWER_IS_BETTER ||
          !AsksForMore(policy.rules(i).predicate(), metric.name())) {
        continue;
      }
      fmt::print(stderr,
                 "msitctl: note: {}: lower values of {} are better, but this "
                 "requires a high one\n",
                 ask::Printable(rule_sources[static_cast<size_t>(i)]),
                 ask::Printable(metric.name()));
    }
  }
}

ask::Outcome ToPolicy(const PolicyFlags& flags, v1::Policy& policy,
                      std::vector<std::string>& rule_sources) {
  MSITCTL_RETURN_IF_FAILED(AddRules(flags, policy, rule_sources));
  if (!flags.preset.empty()) {
    const auto preset = ask::ParsePreset(flags.preset);
    if (!preset.ok()) {
      return ask::UsageError(
          fmt::format("--preset: {}", Message(preset.status())));
    }
    policy.set_preset(*preset);
  }
  for (const std::string& word : ask::SplitLists(flags.metrics)) {
    const auto set = ParseMetricSet(word);
    if (!set.ok()) {
      return ask::UsageError(
          fmt::format("--metrics: {}", Message(set.status())));
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
    return ask::UsageError(fmt::format(
        "--shapes: \"{}\" is not exact, squeeze or count", flags.shapes));
  }
  for (const std::string& text : flags.allow_unmatched) {
    policy.add_allow_unmatched(text);
  }
  if (flags.top_k != 0) policy.set_top_k(flags.top_k);
  return {};
}

}  // namespace msitd::msitctl
