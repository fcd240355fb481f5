// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/capture_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/not_recorded.h"
#include "daemon/compare/job/run_ranks_message.h"
#include "daemon/query/tensor_groups.h"
#include "daemon/query/time_limit.h"
#include "daemon/service/proto_convert.h"
#include "google/protobuf/util/time_util.h"
#include "protos/base/limits.h"
#include "protos/base/rank_activity.h"
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
  if (!from.filter().kinds().empty()) {
    return FieldInvalid("filter.kinds",
                        "a value follows the rule of its op and side");
  }
  MSITD_ASSIGN_OR_RETURN(rule.level, ToLevel(from.level()));
  MSITD_ASSIGN_OR_RETURN(rule.tensors, ToSelector(from.filter()));
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
  service::ToProto(from.tensors, *out.mutable_filter());
}

void ToProto(const capture::Policy& from, v1::CapturePolicy& out) {
  out.set_revision(static_cast<int64_t>(from.revision));
  out.set_first_token(from.first_token);
  for (const capture::Rule& rule : from.rules) ToProto(rule, *out.add_rules());
}

// The coverage of one rank.
struct Rank {
  storage::RankCoverage told;
  uint64_t stored_count = 0;
  // Set only for an active run.
  std::optional<v1::StreamState> stream_state;
  std::chrono::steady_clock::duration streamless_time{};
  compare::NotRecorded not_recorded = {};
};

// Maximum total size of the reasons in a response; see RankCoverage.
constexpr size_t kReasonBytesMax = size_t{1} << 20;

v1::StreamState ToProto(RankActivity::State state) {
  switch (state) {
    case RankActivity::State::kOpen:
      return v1::STREAM_STATE_OPEN;
    case RankActivity::State::kFinished:
      return v1::STREAM_STATE_FINISHED;
    case RankActivity::State::kBroken:
      break;
  }
  return v1::STREAM_STATE_BROKEN;
}

void AddStreamState(const Rank& from, v1::RankCoverage& out) {
  if (!from.stream_state.has_value()) return;
  out.set_stream_state(*from.stream_state);
  if (*from.stream_state == v1::STREAM_STATE_OPEN) return;
  *out.mutable_streamless_duration() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(
          std::chrono::duration_cast<std::chrono::milliseconds>(
              from.streamless_time)
              .count());
}

void AddTimes(const StreamCoverage& total, v1::RankCoverage& out) {
  if (total.open_ns == 0) return;
  using google::protobuf::util::TimeUtil;
  *out.mutable_recording_duration() =
      TimeUtil::NanosecondsToDuration(static_cast<int64_t>(total.recording_ns));
  *out.mutable_open_duration() =
      TimeUtil::NanosecondsToDuration(static_cast<int64_t>(total.open_ns));
  out.set_overhead(static_cast<double>(total.recording_ns) /
                   static_cast<double>(total.open_ns));
}

void ToProto(const Rank& from, v1::RankCoverage& out) {
  const StreamCoverage& total = from.told.total;
  const storage::StreamRepeats& repeats = from.told.repeats;
  // Incomplete records are not listed; AccountedCount() expects them to be the
  // truncated ones.
  const uint64_t explained = from.told.AccountedCount(from.stored_count, 0);
  // A process that died may not have reported the last records that it
  // received.
  const uint64_t asked = std::max(from.told.requested_count(), explained);
  out.set_rank(from.told.rank);
  out.set_stream_count(static_cast<int64_t>(from.told.stream_count));
  out.set_seen_count(static_cast<int64_t>(total.filtered_count + asked));
  out.set_filtered_count(static_cast<int64_t>(total.filtered_count));
  out.set_asked_count(static_cast<int64_t>(asked));
  out.set_stored_count(static_cast<int64_t>(from.stored_count));
  out.set_dropped_count(static_cast<int64_t>(total.dropped_count));
  out.set_truncated_count(static_cast<int64_t>(total.truncated_count));
  out.set_degraded_count(static_cast<int64_t>(total.degraded_count));
  out.set_repeated_count(static_cast<int64_t>(repeats.repeated_count));
  // Each part of a tensor that arrives in several chunks is counted.
  out.set_conflict_count(static_cast<int64_t>(
      std::min(repeats.conflict_count, repeats.repeated_count)));
  out.set_dangling_count(static_cast<int64_t>(repeats.dangling_count));
  out.set_claimed_count(static_cast<int64_t>(repeats.claimed_count));
  out.set_checked_count(static_cast<int64_t>(repeats.checked_count));
  out.set_false_count(static_cast<int64_t>(repeats.false_count));
  const auto rest = static_cast<int64_t>(asked - explained);
  const bool streams = from.stream_state == v1::STREAM_STATE_OPEN;
  streams ? out.set_pending_count(rest) : out.set_lost_count(rest);
  AddStreamState(from, out);
  AddTimes(total, out);
}

// Adds the stream state of the ranks of an active run, and ranks that have not
// streamed yet.
void AddActivity(const RunActivity& activity, int32_t world_size,
                 std::map<int32_t, Rank>& ranks) {
  bool streams = false;
  for (const RankActivity& rank : activity.ranks) {
    streams |= rank.state == RankActivity::State::kOpen;
    ranks[rank.rank].stream_state = ToProto(rank.state);
    ranks[rank.rank].streamless_time = rank.quiet_time;
  }
  // One rank more than the limit is sufficient for the request to be refused.
  const auto shown = static_cast<int32_t>(query::kGroupsMax + 1);
  if (streams) {
    for (int32_t i = 0; i < std::min(world_size, shown); ++i) ranks[i];
  }
  for (auto& [number, rank] : ranks) {
    if (rank.stream_state.has_value()) continue;
    rank.stream_state = v1::STREAM_STATE_NONE;
    rank.streamless_time = activity.known_time;
  }
}

void AddReasons(compare::NotRecorded from, size_t& bytes_left,
                v1::RankCoverage& out) {
  out.set_not_recorded_count(from.count);
  if (from.reasons.empty()) return;
  size_t bytes = 0;
  for (const v1::NotRecorded& reason : from.reasons) {
    bytes += reason.ByteSizeLong();
  }
  if (bytes > bytes_left) {
    bytes_left = 0;
    v1::NotRecorded& all = *out.add_not_recorded();
    all.set_reason("left out here: the reasons of this and later ranks");
    all.set_count(from.count);
    return;
  }
  bytes_left -= bytes;
  for (v1::NotRecorded& reason : from.reasons) {
    *out.add_not_recorded() = std::move(reason);
  }
}

// The policy of clients that have not received one.
capture::Policy Everything() {
  capture::Policy policy;
  policy.rules.emplace_back().level = capture::Level::kFull;
  return policy;
}

// Clients count values in the same way as tensors.
Selector EveryKind() {
  Selector out;
  out.kinds = EveryRecordKind();
  return out;
}

}  // namespace

absl::Status CaptureServiceImpl::Get(const v1::GetCapturePolicyRequest& request,
                                     v1::CapturePolicy& response) {
  MSITD_ASSIGN_OR_RETURN(const auto reader, readers_.OpenRun(request.run()));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run, reader->GetInfo());
  capture::Policies policies = {Everything()};
  if (!run.capture_policy.empty() &&
      !capture::Decode(run.capture_policy, policies)) {
    return absl::DataLossError("the capture policy of the run is damaged");
  }
  ToProto(policies.back(), response);
  return absl::OkStatus();
}

absl::Status CaptureServiceImpl::Set(const access::Caller& caller,
                                     const v1::SetCapturePolicyRequest& request,
                                     v1::CapturePolicy& response) {
  MSITD_RETURN_IF_ERROR(CheckRunName(request.run()));
  MSITD_ASSIGN_OR_RETURN(capture::Policy policy, ToPolicy(request.policy()));
  const std::optional<int64_t> first_token =
      request.policy().has_first_token()
          ? std::optional(request.policy().first_token())
          : std::nullopt;
  MSITD_ASSIGN_OR_RETURN(
      policy, pipeline_.runs().SetCapturePolicy(
                  request.run(), std::move(policy), first_token, caller));
  ToProto(policy, response);
  return absl::OkStatus();
}

absl::Status CaptureServiceImpl::Coverage(
    const Call& call, const v1::GetCaptureCoverageRequest& request,
    v1::CaptureCoverage& response) {
  MSITD_ASSIGN_OR_RETURN(const auto reader, readers_.OpenRun(request.run()));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run, reader->GetInfo());
  MSITD_ASSIGN_OR_RETURN(const storage::RunRanks come,
                         storage::FindRunRanks(*reader, run, {}));
  compare::ToMessage(come, response);
  MSITD_ASSIGN_OR_RETURN(const std::vector<storage::RankCoverage> told,
                         reader->ListCoverage());
  const auto is_gone = [&call] { return call.Check(); };
  const query::TimeLimit limit(query::kReductionTimeMax, is_gone);
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<query::Group> stored,
      query::SummarizeTensors(*reader, EveryKind(), query::GroupBy::kRank,
                              [&limit] { return limit.Check(); }));
  std::map<int32_t, Rank> ranks;
  for (const storage::RankCoverage& rank : told) ranks[rank.rank].told = rank;
  for (const query::Group& group : stored) {
    ranks[std::stoi(group.key)].stored_count = group.tensor_count;
  }
  MSITD_ASSIGN_OR_RETURN(auto not_recorded,
                         compare::FindNotRecorded(
                             *reader, {}, [&limit] { return limit.Check(); }));
  for (auto& [number, rank] : not_recorded) {
    ranks[number].not_recorded = std::move(rank);
  }
  if (!run.sealed) {
    AddActivity(pipeline_.ActivityOf(request.run()), run.spec.world_size,
                ranks);
  }
  if (ranks.size() > query::kGroupsMax) {
    return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                 "the run has {} ranks, at most {} are shown",
                                 ranks.size(), query::kGroupsMax),
                      ErrorReason::kFieldInvalid);
  }
  size_t bytes_left = kReasonBytesMax;
  for (auto& [number, rank] : ranks) {
    rank.told.rank = number;
    v1::RankCoverage& out = *response.add_ranks();
    ToProto(rank, out);
    AddReasons(std::move(rank.not_recorded), bytes_left, out);
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
  return UnaryCall::Start(pools_.control, *context,
                          [=, this](const Call& call) {
                            return Set(call.caller(), *request, *response);
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
