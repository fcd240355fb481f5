// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_outline.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/compare/job/run_identity.h"
#include "daemon/compare/judge/pair_plan.h"
#include "daemon/compare/match/group_set.h"
#include "protos/base/check.h"
#include "protos/base/dtype.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Span = ComparisonOutline::Span;

int64_t BytesOf(const LogicalTensor& tensor) {
  return static_cast<int64_t>(ElementCount(tensor.shape) *
                              ElementBytes(tensor.dtype));
}

// Adds the tokens of a rank as spans. Consecutive tokens form one span. Tokens
// with gaps are divided into at most kPiecesMax spans with about the same
// number of groups.
void AddRun(const TokenRuns::Run& run, Span span, std::vector<Span>& out) {
  constexpr int64_t kPiecesMax = 64;
  const int64_t step = std::max<int64_t>(run.step, 1);
  const int64_t count = (run.last - run.first) / step + 1;
  const int64_t pieces = step == 1 ? 1 : std::min(count, kPiecesMax);
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t begin = i * count / pieces;
    const int64_t end = (i + 1) * count / pieces;
    span.first_token = run.first + begin * step;
    span.last_token = run.first + (end - 1) * step;
    span.group_count = end - begin;
    if (!out.empty() && out.back().rank == span.rank &&
        out.back().last_token + 1 == span.first_token) {
      out.back().last_token = span.last_token;
      out.back().group_count += span.group_count;
    } else {
      out.push_back(span);
    }
  }
}

std::vector<Span> SpansOf(const GroupMatcher& matcher) {
  std::vector<Span> out;
  for (const auto& [rank, tokens] : matcher.groups().ranks()) {
    const Span span{.rank = rank, .is_whole = matcher.HasSeveralDevices(rank)};
    for (const TokenRuns::Run& run : tokens.runs()) AddRun(run, span, out);
  }
  return out;
}

// Joins spans of the same rank, two at a time, until there are at most
// kOutlineSpansMax spans or only one for each rank.
void Join(std::vector<Span>& spans) {
  for (size_t before = 0;
       spans.size() > kOutlineSpansMax && spans.size() != before;) {
    before = spans.size();
    std::vector<Span> joined;
    bool is_whole = true;
    for (const Span& span : spans) {
      if (!is_whole && joined.back().rank == span.rank) {
        joined.back().last_token = span.last_token;
        joined.back().group_count += span.group_count;
        is_whole = true;
      } else {
        joined.push_back(span);
        is_whole = false;
      }
    }
    spans = std::move(joined);
  }
}

void Sample(const TensorGroup& group, const ComparisonPlan& comparison,
            ComparisonOutline& out) {
  ++out.sampled_group_count;
  out.sampled_pair_count += static_cast<int64_t>(group.pairs.size());
  PairPlanner planner(comparison.policy, comparison.reading);
  for (const TensorPair& pair : group.pairs) {
    const PairPlan plan = planner.Plan(pair, PairBasis());
    if (!plan.is_measured()) continue;
    for (const LogicalTensor* const tensor : {pair.golden, pair.target}) {
      // A sample is computed from the bytes if they are stored.
      const bool is_small = plan.is_sampled() && !tensor->has_bytes;
      out.sampled_read_bytes +=
          is_small ? std::min(BytesOf(*tensor),
                              static_cast<int64_t>(kSampleBytesMax))
                   : BytesOf(*tensor);
    }
  }
}

}  // namespace

absl::StatusOr<ComparisonOutline> FindOutline(storage::RunReaders& readers,
                                              const ComparisonPlan& plan,
                                              storage::StopCheck stop) {
  const storage::WaitCheck wait = [stop] { return stop(); };
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::RunReader> golden,
                         readers.OpenRunAt(plan.golden(), wait));
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::RunReader> target,
                         readers.OpenRunAt(plan.target(), wait));
  MSITD_ASSIGN_OR_RETURN(
      const GroupMatcher matcher,
      GroupMatcher::Create(*golden, *target, plan.selector, plan.matching));
  ComparisonOutline out;
  MSITD_ASSIGN_OR_RETURN(out.golden_run_id,
                         FindRunId(readers, plan.golden(), wait));
  MSITD_ASSIGN_OR_RETURN(out.target_run_id,
                         FindRunId(readers, plan.target(), wait));
  MSITD_RETURN_IF_ERROR(
      CheckRunId(plan.golden(), plan.golden_run_id, out.golden_run_id));
  MSITD_RETURN_IF_ERROR(
      CheckRunId(plan.target(), plan.target_run_id, out.target_run_id));
  out.spans = SpansOf(matcher);
  Join(out.spans);
  const size_t count = matcher.groups().count();
  const size_t sampled = std::min(count, kSampledGroupsMax);
  GroupCursor groups(matcher.groups());
  for (size_t at = 0, taken = 0; taken < sampled; ++at) {
    const std::optional<GroupKey> key = groups.Next();
    MSITD_CHECK(key.has_value());
    if (at != taken * count / sampled) continue;
    ++taken;
    MSITD_RETURN_IF_ERROR(stop());
    MSITD_ASSIGN_OR_RETURN(const TensorGroup group, matcher.Load(*key, stop));
    Sample(group, plan, out);
  }
  return out;
}

}  // namespace msitd::compare
