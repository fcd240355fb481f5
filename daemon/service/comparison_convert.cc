// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/comparison_convert.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/service/proto_convert.h"
#include "msitd/v1/filter.pb.h"
#include "protos/base/limits.h"
#include "protos/base/rank_set_message.h"
#include "protos/status/status.h"

namespace msitd::service {

absl::StatusOr<uint64_t> ToComparisonId(std::string_view name) {
  const std::optional<uint64_t> id = compare::ParseComparisonName(name);
  if (id.has_value()) return *id;
  return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                               "no comparison '{}'; names look like {}", name,
                               compare::FormatComparisonName(1)),
                    ErrorReason::kComparisonNotFound);
}

namespace {

absl::StatusOr<compare::Preset> ToPreset(v1::Policy::Preset preset,
                                         const std::string& field) {
  if (v1::Policy::Preset_IsValid(preset)) {
    return static_cast<compare::Preset>(preset);
  }
  return FieldInvalid(field, fmt::format("{} is no preset", preset));
}

absl::StatusOr<uint32_t> ToMetricSets(const v1::Policy& policy) {
  uint32_t sets = 0;
  for (int i = 0; i < policy.metric_sets_size(); ++i) {
    switch (policy.metric_sets(i)) {
      case v1::Policy::ULP:
        sets |= compute::kUlpSet;
        break;
      case v1::Policy::SHARES:
        sets |= compute::kShareSet;
        break;
      case v1::Policy::PERCENTILES:
        sets |= compute::kPercentileSet;
        break;
      case v1::Policy::PEARSON:
        sets |= compute::kPearsonSet;
        break;
      case v1::Policy::BITS:
        sets |= compute::kBitSet;
        break;
      case v1::Policy::TOP_K:
        sets |= compute::kTopKSet;
        break;
      case v1::Policy::MSIT_METRICS:
        sets |= compute::kMsitSet;
        break;
      case v1::Policy::MSPROBE_METRICS:
        sets |= compute::kMsprobeSet | compute::kShareSet;
        break;
      default:
        return FieldInvalid(
            fmt::format("policy.metric_sets[{}]", i),
            fmt::format("{} is no metric set",
                        static_cast<int>(policy.metric_sets(i))));
    }
  }
  return sets;
}

absl::StatusOr<compare::PolicySpec> ToPolicySpec(const v1::Policy& policy) {
  compare::PolicySpec spec;
  for (int i = 0; i < policy.rules_size(); ++i) {
    const v1::Policy::Rule& rule = policy.rules(i);
    const std::string field = fmt::format("policy.rules[{}]", i);
    if (!rule.op_regex().empty() && !rule.op_pattern().empty()) {
      return FieldInvalid(field, "has both op_pattern and op_regex");
    }
    compare::PolicyRule& out = spec.rules.emplace_back();
    out.is_regex = !rule.op_regex().empty();
    out.op_pattern = out.is_regex ? rule.op_regex() : rule.op_pattern();
    out.predicate = rule.predicate();
    MSITD_ASSIGN_OR_RETURN(out.preset,
                           ToPreset(rule.preset(), field + ".preset"));
    if (rule.has_rtol()) out.rtol = rule.rtol();
    if (rule.has_atol()) out.atol = rule.atol();
  }
  MSITD_ASSIGN_OR_RETURN(spec.preset,
                         ToPreset(policy.preset(), "policy.preset"));
  MSITD_ASSIGN_OR_RETURN(spec.metric_sets, ToMetricSets(policy));
  if (!v1::Policy::ShapeRule_IsValid(policy.shape_rule())) {
    return FieldInvalid("policy.shape_rule",
                        fmt::format("{} is no shape rule",
                                    static_cast<int>(policy.shape_rule())));
  }
  spec.shape_rule = static_cast<compare::ShapeRule>(policy.shape_rule());
  if (policy.top_k() != 0) spec.top_k = policy.top_k();
  spec.allow_unmatched.assign(policy.allow_unmatched().begin(),
                              policy.allow_unmatched().end());
  return spec;
}

absl::Status SetReading(const v1::Comparison& request,
                        compare::ComparisonPlan& plan) {
  switch (request.reading()) {
    case v1::Comparison::READING_UNSPECIFIED:
    case v1::Comparison::BYTES:
      plan.reading = compare::Reading::kBytes;
      return absl::OkStatus();
    case v1::Comparison::UNPROVEN:
      plan.reading = compare::Reading::kUnproven;
      break;
    case v1::Comparison::SAMPLES:
      plan.reading = compare::Reading::kSamples;
      break;
    default:
      return FieldInvalid(
          "comparison.reading",
          fmt::format("{} is no reading", static_cast<int>(request.reading())));
  }
  const auto metric_count = static_cast<int>(compare::MetricNames().size());
  for (size_t i = 0; i < plan.watches.size(); ++i) {
    const std::vector<int> names = plan.watches[i].Names();
    if (names.empty() || names.front() >= metric_count) continue;
    return FieldInvalid(
        fmt::format("watches[{}]", i),
        fmt::format("{} is not known of pairs whose bytes are not read, as "
                    "reading {} asks for",
                    compare::MetricNames()[names.front()],
                    v1::Comparison::Reading_Name(request.reading())));
  }
  return absl::OkStatus();
}

// Maximum length of a source, which is an endpoint or a URL.
constexpr size_t kSourceBytesMax = 4096;

absl::Status CheckSources(const v1::Comparison& request) {
  for (const auto& [field, source] :
       {std::pair("comparison.golden_source", &request.golden_source()),
        std::pair("comparison.target_source", &request.target_source())}) {
    if (source->size() > kSourceBytesMax) {
      return FieldInvalid(field,
                          fmt::format("has {} bytes, at most {} are taken",
                                      source->size(), kSourceBytesMax));
    }
    if (!source->empty() && request.follow()) {
      return FieldInvalid(
          "comparison.follow",
          fmt::format("a run that lies at {} is not followed", *source));
    }
  }
  if (!request.matching().has_mapping()) return absl::OkStatus();
  const bool is_golden =
      request.matching().mapping().side() == v1::Matching::Mapping::GOLDEN;
  const std::string& source =
      is_golden ? request.golden_source() : request.target_source();
  if (source.empty()) return absl::OkStatus();
  return FieldInvalid(
      "matching.mapping.side",
      fmt::format("the attachments of a run that lies at {} are not read: "
                  "attach the mapping to the other run",
                  source));
}

// Maximum length of the ids of a run that has as many locations as a source can
// name.
constexpr size_t kRunIdBytesMax = 4096;

absl::Status SetRunIds(const v1::Comparison& request,
                       compare::ComparisonPlan& plan) {
  for (const auto& [field, id] :
       {std::pair("comparison.golden_run_id", &request.golden_run_id()),
        std::pair("comparison.target_run_id", &request.target_run_id())}) {
    if (id->size() > kRunIdBytesMax) {
      return FieldInvalid(field, fmt::format("has {} bytes, at most {}",
                                             id->size(), kRunIdBytesMax));
    }
  }
  plan.golden_run_id = request.golden_run_id();
  plan.target_run_id = request.target_run_id();
  return absl::OkStatus();
}

absl::StatusOr<RankSet> ToRankSet(
    const char* field,
    const google::protobuf::RepeatedPtrField<v1::RankRange>& ranges) {
  if (ranges.size() > kRankRangesMax) {
    return FieldInvalid(field, fmt::format("{} of them, at most {}",
                                           ranges.size(), kRankRangesMax));
  }
  std::vector<RankRange> out;
  for (const v1::RankRange& range : ranges) {
    if (range.first() < 0 || range.last() < range.first() ||
        range.last() > kRankMax) {
      return FieldInvalid(field, fmt::format("{} to {} is no range of ranks",
                                             range.first(), range.last()));
    }
    out.push_back({range.first(), range.last()});
  }
  return RankSet(std::move(out));
}

absl::Status SetRequiredRanks(const v1::Comparison& request,
                              compare::ComparisonPlan& plan) {
  MSITD_ASSIGN_OR_RETURN(plan.golden_required,
                         ToRankSet("comparison.golden_required_ranks",
                                   request.golden_required_ranks()));
  MSITD_ASSIGN_OR_RETURN(plan.target_required,
                         ToRankSet("comparison.target_required_ranks",
                                   request.target_required_ranks()));
  return absl::OkStatus();
}

absl::Status CheckRequests(const v1::Comparison& request,
                           const Selector& selector) {
  if (!selector.requests.empty() && !request.matching().by_request()) {
    return FieldInvalid("filter.requests",
                        "rows are not compared by request (`by_request`)");
  }
  if (request.follow() && request.matching().by_request()) {
    return FieldInvalid("comparison.follow",
                        "cannot be combined with a comparison by request");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<compare::Policy> ToPolicy(const v1::Policy& request) {
  MSITD_ASSIGN_OR_RETURN(const compare::PolicySpec spec, ToPolicySpec(request));
  return compare::Policy::Create(spec);
}

absl::StatusOr<compare::Policy> ToJudgingPolicy(const v1::Policy& request) {
  if (request.metric_sets_size() > 0) {
    return FieldInvalid("policy.metric_sets",
                        "no metric is computed when stored rows are judged");
  }
  if (request.top_k() != 0) {
    return FieldInvalid("policy.top_k",
                        "no metric is computed when stored rows are judged");
  }
  if (request.allow_unmatched_size() > 0) {
    return FieldInvalid("policy.allow_unmatched",
                        "unmatched rows keep their verdicts when stored rows "
                        "are judged");
  }
  return ToPolicy(request);
}

absl::StatusOr<compare::ComparisonPlan> ToPlan(const v1::Comparison& request) {
  compare::ComparisonPlan plan;
  plan.golden_run = request.golden_run();
  plan.target_run = request.target_run();
  plan.golden_source = request.golden_source();
  plan.target_source = request.target_source();
  if (plan.golden_run.empty()) {
    return FieldInvalid("comparison.golden_run", "is required");
  }
  if (plan.target_run.empty()) {
    return FieldInvalid("comparison.target_run", "is required");
  }
  MSITD_RETURN_IF_ERROR(CheckSources(request));
  MSITD_RETURN_IF_ERROR(SetRunIds(request, plan));
  MSITD_RETURN_IF_ERROR(SetRequiredRanks(request, plan));
  MSITD_ASSIGN_OR_RETURN(plan.selector, ToSelector(request.filter()));
  if (!plan.selector.kinds.empty() &&
      plan.selector.HasKind(RecordKind::kDocument)) {
    return FieldInvalid("filter.kinds", "documents are not compared");
  }
  MSITD_RETURN_IF_ERROR(CheckRequests(request, plan.selector));
  // Statistics represent tensors of which nothing else was recorded.
  if (plan.selector.kinds.empty()) {
    plan.selector.kinds = {RecordKind::kTensor, RecordKind::kStatistics};
  }
  MSITD_ASSIGN_OR_RETURN(plan.policy, ToPolicy(request.policy()));
  MSITD_ASSIGN_OR_RETURN(plan.matching,
                         compare::MatchRules::Create(request.matching()));
  if (plan.matching.is_mapped()) {
    const v1::Matching::Mapping& mapping = request.matching().mapping();
    const bool is_golden = mapping.side() == v1::Matching::Mapping::GOLDEN;
    if (!(is_golden ? plan.golden_source : plan.target_source).empty()) {
      return FieldInvalid(
          "comparison.matching.mapping",
          "is an attachment of a run that lies elsewhere: attachments are read "
          "of runs of this daemon alone");
    }
    plan.mapping = {is_golden ? plan.golden_run : plan.target_run,
                    mapping.attachment()};
  }
  const bool has_layouts = !plan.matching.golden_layouts().empty() ||
                           !plan.matching.target_layouts().empty();
  if (has_layouts && !plan.selector.devices.empty()) {
    return FieldInvalid("filter.devices",
                        "cannot be with layouts, whose shards are on several");
  }
  plan.follow = request.follow();
  plan.detach = request.detach();
  if (request.watches_size() > compare::kWatchesMax) {
    return FieldInvalid(
        "watches", fmt::format("{} of them, at most {}", request.watches_size(),
                               compare::kWatchesMax));
  }
  for (int i = 0; i < request.watches_size(); ++i) {
    auto watch =
        predicate::Predicate::Parse(request.watches(i), compare::WatchNames());
    if (!watch.ok()) {
      return Annotate(watch.status(), fmt::format("watches[{}]", i));
    }
    plan.watches.push_back(*std::move(watch));
  }
  MSITD_RETURN_IF_ERROR(SetReading(request, plan));
  return plan;
}

}  // namespace msitd::service
