// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/origin_follow.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "client/ask/query/exit_code.h"
#include "client/msitctl/verb/await_run.h"
#include "msitd/v1/capture_service.pb.h"
#include "msitd/v1/run_service.pb.h"

namespace msitd::msitctl {
namespace {

using Clock = std::chrono::steady_clock;

// Times without news after which a run counts as complete so far.
constexpr std::chrono::seconds kQuiet(10);
constexpr std::chrono::seconds kPollMin(1);
// A search reads the summaries of all tokens so far. This limits its share of
// the daemon's time.
constexpr int kPauseFactor = 10;
// Consecutive calls that may fail because the daemon cannot be reached.
constexpr int kUnreachableMax = 10;

class Follower {
 public:
  Follower(Invocation& invocation, const v1::FindOriginRequest& request)
      : invocation_(invocation), request_(request) {}

  ask::Outcome Run(v1::FindOriginResponse& answer) {
    MSITCTL_RETURN_IF_FAILED(AwaitRun(invocation_, request_.run()));
    int unreachable_count = 0;
    while (true) {
      const auto start = Clock::now();
      bool is_over = false;
      const ask::Outcome outcome = Look(answer, is_over);
      if (is_over && outcome.ok()) return {};
      const bool is_unreachable =
          outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::UNAVAILABLE);
      unreachable_count = is_unreachable ? unreachable_count + 1 : 0;
      if (!outcome.ok() &&
          (!is_unreachable || unreachable_count == kUnreachableMax)) {
        return outcome;
      }
      const auto pause = std::max<Clock::duration>(
          kPollMin, kPauseFactor * (Clock::now() - start));
      if (invocation_.interrupts().WaitFor(
              std::chrono::ceil<std::chrono::milliseconds>(pause))) {
        return ask::Interrupted();
      }
    }
  }

 private:
  // Searches once.
  ask::Outcome Look(v1::FindOriginResponse& answer, bool& is_over) {
    // The state is read first, so that a complete run is searched completely.
    v1::Run run;
    MSITCTL_RETURN_IF_FAILED(invocation_.AskByName(
        &v1::RunService::Stub::GetRun, request_.run(), run));
    const bool is_sealed = run.state() == v1::Run::SEALED;
    MSITCTL_RETURN_IF_FAILED(LookAtRanks());
    answer.Clear();
    MSITCTL_RETURN_IF_FAILED(invocation_.Ask(
        &v1::TensorService::Stub::FindOrigin, request_, answer));
    if (answer.result() == v1::FindOriginResponse::NONE) {
      is_over = is_sealed || has_ended_;
      return {};
    }
    is_over = is_sealed || is_quiet_;
    return is_over ? ask::Outcome{} : LookForLaterTokens(answer, is_over);
  }

  // Determines which ranks are being recorded.
  ask::Outcome LookAtRanks() {
    v1::GetCaptureCoverageRequest request;
    request.set_run(request_.run());
    v1::CaptureCoverage coverage;
    MSITCTL_RETURN_IF_FAILED(invocation_.Ask(
        &v1::CaptureService::Stub::GetCaptureCoverage, request, coverage));
    streaming_.clear();
    int64_t stored_count = 0;
    int64_t streamless_s = std::numeric_limits<int64_t>::max();
    for (const v1::RankCoverage& rank : coverage.ranks()) {
      stored_count += rank.stored_count();
      if (rank.stream_state() == v1::STREAM_STATE_OPEN) {
        streaming_.insert(std::to_string(rank.rank()));
      }
      streamless_s =
          std::min(streamless_s, rank.streamless_duration().seconds());
    }
    const auto now = Clock::now();
    if (stored_count != stored_count_) last_news_ = now;
    stored_count_ = stored_count;
    is_quiet_ = now - last_news_ >= kQuiet;
    has_ended_ = !coverage.ranks().empty() && streaming_.empty() &&
                 streamless_s >= kQuiet.count();
    return {};
  }

  // Determines whether all ranks that are being recorded have a token after
  // those of the answer.
  ask::Outcome LookForLaterTokens(const v1::FindOriginResponse& answer,
                                  bool& are_there) {
    int64_t last_token = 0;
    for (const auto* const list : {&answer.origins(), &answer.unknown()}) {
      for (const v1::RunOrigin& origin : *list) {
        last_token = std::max(last_token, origin.tensor().token());
      }
    }
    v1::SummarizeTensorsRequest request;
    request.set_run(request_.run());
    request.set_group_by(v1::SummarizeTensorsRequest::RANK);
    v1::TokenRange& later = *request.mutable_filter()->add_tokens();
    later.set_first(last_token + 1);
    later.set_last(std::numeric_limits<int64_t>::max());
    v1::SummarizeTensorsResponse response;
    MSITCTL_RETURN_IF_FAILED(invocation_.Ask(
        &v1::TensorService::Stub::SummarizeTensors, request, response));
    std::set<std::string> waiting = streaming_;
    for (const auto& group : response.groups()) waiting.erase(group.key());
    are_there = waiting.empty();
    return {};
  }

  Invocation& invocation_;
  const v1::FindOriginRequest& request_;
  // The ranks that have a stream.
  std::set<std::string> streaming_;
  int64_t stored_count_ = -1;
  Clock::time_point last_news_;
  bool is_quiet_ = false;
  bool has_ended_ = false;
};

}  // namespace

ask::Outcome FollowOrigin(Invocation& invocation,
                          const v1::FindOriginRequest& request,
                          v1::FindOriginResponse& answer) {
  return Follower(invocation, request).Run(answer);
}

}  // namespace msitd::msitctl
