// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_outline.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "daemon/compare/job/pair_plan.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using Span = ComparisonOutline::Span;

int64_t BytesOf(const LogicalTensor& tensor) {
  return static_cast<int64_t>(ElementCount(tensor.shape) *
                              ElementBytes(tensor.dtype));
}

// Tokens that follow each other in one rank make a span.
std::vector<Span> SpansOf(const GroupMatcher& matcher) {
  std::vector<Span> groups;
  groups.reserve(matcher.group_count());
  for (size_t i = 0; i < matcher.group_count(); ++i) {
    groups.push_back({matcher.rank(i), matcher.token(i), matcher.token(i), 1,
                      matcher.HasSeveralDevices(matcher.rank(i))});
  }
  std::sort(groups.begin(), groups.end(), [](const Span& a, const Span& b) {
    return std::tie(a.rank, a.first_token) < std::tie(b.rank, b.first_token);
  });
  std::vector<Span> out;
  for (const Span& group : groups) {
    if (!out.empty() && out.back().rank == group.rank &&
        out.back().last_token + 1 == group.first_token) {
      out.back().last_token = group.last_token;
      ++out.back().group_count;
    } else {
      out.push_back(group);
    }
  }
  return out;
}

// Joins spans of a rank, in pairs, until there are few enough or one of each.
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

void Sample(const TensorGroup& group, const Policy& policy,
            ComparisonOutline& out) {
  ++out.sampled_group_count;
  out.sampled_pair_count += static_cast<int64_t>(group.pairs.size());
  for (const TensorPair& pair : group.pairs) {
    const PairPlan plan = PlanOf(pair, policy);
    if (plan.is_measured() && !plan.is_sampled()) {
      out.sampled_read_bytes += BytesOf(*pair.golden) + BytesOf(*pair.target);
    }
  }
}

}  // namespace

absl::StatusOr<ComparisonOutline> FindOutline(storage::RunReaders& readers,
                                              const ComparisonPlan& plan,
                                              storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::RunReader> golden,
                         readers.OpenRunAt(plan.golden()));
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::RunReader> target,
                         readers.OpenRunAt(plan.target()));
  MSITD_ASSIGN_OR_RETURN(
      const GroupMatcher matcher,
      GroupMatcher::Create(*golden, *target, plan.selector, plan.matching));
  ComparisonOutline out;
  out.spans = SpansOf(matcher);
  Join(out.spans);
  const size_t count = matcher.group_count();
  const size_t sampled = std::min(count, kSampledGroupsMax);
  for (size_t i = 0; i < sampled; ++i) {
    MSITD_RETURN_IF_ERROR(stop());
    MSITD_ASSIGN_OR_RETURN(const TensorGroup group,
                           matcher.Load(i * count / sampled, stop));
    Sample(group, plan.policy, out);
  }
  return out;
}

}  // namespace msitd::compare
