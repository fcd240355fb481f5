// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/capture_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/query/tensor_groups.h"
#include "daemon/query/time_limit.h"
#include "daemon/service/proto_convert.h"
#include "protos/base/limits.h"
#include "protos/capture/capture_policy.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

constexpr v1::CaptureLevel kLevels[capture::kLevelCount] = {
    v1::CAPTURE_LEVEL_OFF, v1::CAPTURE_LEVEL_SUMMARY, v1::CAPTURE_LEVEL_FULL,
    v1::CAPTURE_LEVEL_SAMPLE};

absl::StatusOr<capture::Level> ToLevel(v1::CaptureLevel level) {
  for (int i = 0; i < capture::kLevelCount; ++i) {
    if (kLevels[i] == level) return static_cast<capture::Level>(i);
  }
  return FieldInvalid("level", fmt::format("{} is no level", int{level}));
}

absl::StatusOr<capture::Rule> ToRule(const v1::CaptureRule& from) {
  capture::Rule rule;
  MSITD_ASSIGN_OR_RETURN(rule.level, ToLevel(from.level()));
  MSITD_ASSIGN_OR_RETURN(storage::TensorSelector selector,
                         ToSelector(from.filter()));
  for (const storage::TokenRange& range : selector.tokens) {
    rule.tokens.push_back({range.first, range.last});
  }
  rule.ranks = std::move(selector.ranks);
  rule.devices = std::move(selector.devices);
  rule.op_patterns = std::move(selector.op_patterns);
  rule.ios = std::move(selector.ios);
  return rule;
}

absl::StatusOr<capture::Policy> ToPolicy(const v1::CapturePolicy& from) {
  if (from.rules().empty() ||
      static_cast<size_t>(from.rules_size()) > capture::kRulesMax) {
    return FieldInvalid("policy.rules",
                        fmt::format("{} rules, 1 to {} are taken",
                                    from.rules_size(), capture::kRulesMax));
  }
  if (from.first_token() < 0 || from.first_token() > kTokenMax) {
    return FieldInvalid(
        "policy.first_token",
        fmt::format("{} is not in 0..{}", from.first_token(), kTokenMax));
  }
  capture::Policy policy;
  for (int i = 0; i < from.rules_size(); ++i) {
    absl::StatusOr<capture::Rule> rule = ToRule(from.rules(i));
    if (!rule.ok()) {
      return Annotate(rule.status(), fmt::format("policy.rules[{}]", i));
    }
    policy.rules.push_back(*std::move(rule));
  }
  return policy;
}

void ToProto(const capture::Rule& from, v1::CaptureRule& out) {
  out.set_level(kLevels[static_cast<int>(from.level)]);
  v1::TensorFilter& filter = *out.mutable_filter();
  filter.mutable_ranks()->Add(from.ranks.begin(), from.ranks.end());
  for (const std::string& device : from.devices) filter.add_devices(device);
  for (const capture::TokenRange& range : from.tokens) {
    v1::TokenRange& tokens = *filter.add_tokens();
    tokens.set_first(range.first);
    tokens.set_last(range.last);
  }
  for (const std::string& op : from.op_patterns) filter.add_op_patterns(op);
  for (const Io io : from.ios) filter.add_ios(static_cast<v1::Io>(io));
}

void ToProto(const capture::Policy& from, v1::CapturePolicy& out) {
  out.set_revision(static_cast<int64_t>(from.revision));
  out.set_first_token(from.first_token);
  for (const capture::Rule& rule : from.rules) ToProto(rule, *out.add_rules());
}

void ToProto(const storage::RankCoverage& from, uint64_t stored_count,
             v1::RankCoverage& out) {
  const StreamCoverage& total = from.total;
  out.set_rank(from.rank);
  out.set_stream_count(static_cast<int64_t>(from.stream_count));
  out.set_seen_count(static_cast<int64_t>(total.seen_count));
  out.set_filtered_count(static_cast<int64_t>(total.filtered_count));
  out.set_asked_count(
      std::max<int64_t>(out.seen_count() - out.filtered_count(), 0));
  out.set_stored_count(static_cast<int64_t>(stored_count));
  out.set_dropped_count(static_cast<int64_t>(total.dropped_count));
  out.set_truncated_count(static_cast<int64_t>(total.truncated_count));
  out.set_degraded_count(static_cast<int64_t>(total.degraded_count));
}

// What clients do that were told nothing.
capture::Policy Everything() {
  capture::Policy policy;
  policy.rules.emplace_back().level = capture::Level::kFull;
  return policy;
}

}  // namespace

absl::Status CaptureServiceImpl::Get(const v1::GetCapturePolicyRequest& request,
                                     v1::CapturePolicy& response) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run,
                         store_.GetRun(request.run()));
  capture::Policies policies = {Everything()};
  if (!run.capture_policy.empty() &&
      !capture::Decode(run.capture_policy, policies)) {
    return absl::DataLossError("the capture policy of the run is damaged");
  }
  ToProto(policies.back(), response);
  return absl::OkStatus();
}

absl::Status CaptureServiceImpl::Set(const v1::SetCapturePolicyRequest& request,
                                     v1::CapturePolicy& response) {
  MSITD_RETURN_IF_ERROR(CheckRunName(request.run()));
  MSITD_ASSIGN_OR_RETURN(capture::Policy policy, ToPolicy(request.policy()));
  const std::optional<int64_t> first_token =
      request.policy().has_first_token()
          ? std::optional(request.policy().first_token())
          : std::nullopt;
  MSITD_ASSIGN_OR_RETURN(
      policy, pipeline_.SetCapturePolicy(request.run(), std::move(policy),
                                         first_token));
  ToProto(policy, response);
  return absl::OkStatus();
}

absl::Status CaptureServiceImpl::Coverage(
    const Call& call, const v1::GetCaptureCoverageRequest& request,
    v1::CaptureCoverage& response) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RankCoverage> told,
                         store_.GetCoverage(request.run()));
  const auto is_gone = [&call] { return call.Check(); };
  const query::TimeLimit limit(query::kReductionTimeMax, is_gone);
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<query::Group> stored,
      query::SummarizeTensors(store_, request.run(), {}, query::GroupBy::kRank,
                              [&limit] { return limit.Check(); }));
  struct Rank {
    storage::RankCoverage told;
    uint64_t stored_count = 0;
  };
  std::map<int32_t, Rank> ranks;
  for (const storage::RankCoverage& rank : told) ranks[rank.rank].told = rank;
  for (const query::Group& group : stored) {
    const int32_t rank = std::stoi(group.key);
    ranks[rank].told.rank = rank;
    ranks[rank].stored_count = group.tensor_count;
  }
  if (ranks.size() > query::kGroupsMax) {
    return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                 "the run has {} ranks, at most {} are shown",
                                 ranks.size(), query::kGroupsMax),
                      "FIELD_INVALID");
  }
  for (const auto& [number, rank] : ranks) {
    ToProto(rank.told, rank.stored_count, *response.add_ranks());
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* CaptureServiceImpl::GetCapturePolicy(
    grpc::CallbackServerContext* context,
    const v1::GetCapturePolicyRequest* request, v1::CapturePolicy* response) {
  return UnaryCall::Start(pools_.control, *context, [=, this](const Call&) {
    return Get(*request, *response);
  });
}

grpc::ServerUnaryReactor* CaptureServiceImpl::SetCapturePolicy(
    grpc::CallbackServerContext* context,
    const v1::SetCapturePolicyRequest* request, v1::CapturePolicy* response) {
  return UnaryCall::Start(pools_.control, *context, [=, this](const Call&) {
    return Set(*request, *response);
  });
}

grpc::ServerUnaryReactor* CaptureServiceImpl::GetCaptureCoverage(
    grpc::CallbackServerContext* context,
    const v1::GetCaptureCoverageRequest* request,
    v1::CaptureCoverage* response) {
  return UnaryCall::Start(pools_.queries, *context,
                          [=, this](const Call& call) {
                            return Coverage(call, *request, *response);
                          });
}

}  // namespace msitd::service
