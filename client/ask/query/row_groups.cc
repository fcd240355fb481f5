// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/row_groups.h"

#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "client/ask/query/connection.h"
#include "client/ask/query/daemon_metrics.h"

namespace msitd::ask {
namespace {

using Group = v1::SummarizeComparisonRowsResponse::Group;

// NaN is the worst value.
bool IsWorse(double a, double b, bool higher_is_better) {
  if (std::isnan(b)) return false;
  if (std::isnan(a)) return true;
  return higher_is_better ? a < b : a > b;
}

void MergeGroup(const Group& from, bool higher_is_better, Group& to) {
  const bool is_worse =
      from.has_worst() &&
      (!to.has_worst() || IsWorse(from.worst(), to.worst(), higher_is_better));
  const bool fails = from.fail_count() > 0;
  const bool has_failure = to.fail_count() > 0;
  if (fails != has_failure ? fails : is_worse) {
    to.set_worst_row(from.worst_row());
  }
  if (is_worse) to.set_worst(from.worst());
  to.set_pass_count(to.pass_count() + from.pass_count());
  to.set_fail_count(to.fail_count() + from.fail_count());
  to.set_unmatched_count(to.unmatched_count() + from.unmatched_count());
  to.set_skipped_count(to.skipped_count() + from.skipped_count());
  to.set_non_finite_count(to.non_finite_count() + from.non_finite_count());
}

Outcome FindDirection(Connection& connection, const std::string& value,
                      bool& higher_is_better) {
  // A share of the tolerance, which is better the smaller it is.
  if (value.empty()) return {};
  std::vector<v1::Metric> metrics;
  MSITCTL_RETURN_IF_FAILED(GetMetrics(connection, metrics));
  for (const v1::Metric& metric : metrics) {
    if (metric.name() != value) continue;
    higher_is_better = metric.direction() == v1::Metric::HIGHER_IS_BETTER;
  }
  return {};
}

}  // namespace

Outcome SummarizeRows(Connection& connection,
                      v1::SummarizeComparisonRowsRequest request,
                      v1::SummarizeComparisonRowsResponse& out) {
  out.Clear();
  bool higher_is_better = false;
  MSITCTL_RETURN_IF_FAILED(
      FindDirection(connection, request.value(), higher_is_better));
  std::map<std::tuple<std::string, int32_t, int64_t>, int> positions;
  request.set_first_row(0);
  do {
    v1::SummarizeComparisonRowsResponse part;
    MSITCTL_RETURN_IF_FAILED(connection.Ask(
        &v1::ComparisonService::Stub::SummarizeComparisonRows, request, part));
    for (const Group& group : part.groups()) {
      const auto [found, is_new] = positions.try_emplace(
          {group.op(), group.rank(), group.token()}, out.groups_size());
      if (is_new) {
        *out.add_groups() = group;
      } else {
        MergeGroup(group, higher_is_better, *out.mutable_groups(found->second));
      }
    }
    if (part.next_row() <= request.first_row()) {
      out.set_row_count(part.row_count());
      break;
    }
    request.set_first_row(part.next_row());
    out.set_next_row(part.next_row());
    out.set_row_count(part.row_count());
  } while (out.next_row() < out.row_count());
  return {};
}

}  // namespace msitd::ask
