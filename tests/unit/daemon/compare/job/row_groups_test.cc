// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/row_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace msitd::compare {
namespace {

using Request = v1::SummarizeComparisonRowsRequest;
using Response = v1::SummarizeComparisonRowsResponse;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct RowSpec {
  std::string op = "a";
  int32_t rank = 0;
  int64_t token = 0;
  v1::Verdict verdict = v1::PASS;
  std::optional<double> nl2 = std::nullopt;
};

v1::ComparisonRow MakeRow(int64_t number, const RowSpec& spec) {
  v1::ComparisonRow row;
  row.set_row(number);
  row.set_op(spec.op);
  row.set_rank(spec.rank);
  row.set_token(spec.token);
  row.set_verdict(spec.verdict);
  row.set_predicate("nl2 <= 0.5");
  if (spec.nl2.has_value()) {
    auto* metric = row.add_metrics();
    metric->set_metric("nl2");
    metric->set_value(*spec.nl2);
  }
  return row;
}

v1::Comparison MakeComparison() {
  v1::Comparison comparison;
  auto* needed = comparison.add_required_tolerances();
  needed->set_predicate("nl2 <= 0.5");
  needed->set_metric("nl2");
  needed->set_bound(0.5);
  return comparison;
}

Request MakeRequest(std::vector<Request::GroupBy> by,
                    const std::string& value = {}) {
  Request request;
  for (const auto property : by) request.add_group_by(property);
  request.set_value(value);
  return request;
}

Response Summarize(const Request& request, const std::vector<RowSpec>& rows) {
  auto groups = RowGroups::Create(request, MakeComparison());
  EXPECT_TRUE(groups.ok()) << groups.status();
  int64_t number = 0;
  for (const RowSpec& row : rows) groups->Add(MakeRow(number++, row));
  Response response;
  groups->MoveTo(response);
  return response;
}

TEST(RowGroupsTest, WithoutPropertiesAllRowsAreOneGroup) {
  const Response response =
      Summarize(MakeRequest({}), {{"a", 0, 0, v1::PASS, 0.25},
                                  {"b", 1, 3, v1::FAIL, 1.0},
                                  {"c", 2, 4, v1::UNMATCHED},
                                  {"d", 3, 5, v1::SKIPPED}});
  ASSERT_EQ(response.groups_size(), 1);
  const auto& group = response.groups(0);
  EXPECT_EQ(group.op(), "");
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(group.token(), 0);
  EXPECT_EQ(group.pass_count(), 1);
  EXPECT_EQ(group.fail_count(), 1);
  EXPECT_EQ(group.unmatched_count(), 1);
  EXPECT_EQ(group.skipped_count(), 1);
  // Twice its bound.
  EXPECT_EQ(group.worst(), 2);
  EXPECT_EQ(group.worst_row(), 1);
}

TEST(RowGroupsTest, GroupsAreInTheOrderOfTheirFirstRows) {
  const Response response = Summarize(
      MakeRequest({Request::OP, Request::TOKEN}),
      {{"b", 0, 0}, {"a", 0, 0}, {"b", 1, 0}, {"b", 0, 1}, {"a", 5, 0}});
  ASSERT_EQ(response.groups_size(), 3);
  EXPECT_EQ(response.groups(0).op(), "b");
  EXPECT_EQ(response.groups(0).pass_count(), 2);
  EXPECT_EQ(response.groups(1).op(), "a");
  EXPECT_EQ(response.groups(1).pass_count(), 2);
  EXPECT_EQ(response.groups(2).token(), 1);
}

// A name of an op can look like the other properties.
TEST(RowGroupsTest, PropertiesAreNotMixedUp) {
  const auto by_all = {Request::OP, Request::RANK, Request::TOKEN};
  EXPECT_EQ(Summarize(MakeRequest(by_all),
                      {{"1 a", 0, 0}, {"a", 0, 1}, {"a", 1, 0}, {"", 0, 0}})
                .groups_size(),
            4);
}

TEST(RowGroupsTest, TheWorstRowFailsIfAnyDoes) {
  const auto request = MakeRequest({Request::OP}, "nl2");
  Response response = Summarize(request, {{"a", 0, 0, v1::PASS, 9.0},
                                          {"a", 0, 1, v1::FAIL, 1.0},
                                          {"a", 0, 2, v1::FAIL, 5.0},
                                          {"a", 0, 3, v1::PASS, 20.0},
                                          {"a", 0, 4, v1::FAIL, 5.0}});
  EXPECT_EQ(response.groups(0).worst(), 20);
  EXPECT_EQ(response.groups(0).worst_row(), 2);
  response = Summarize(request, {{"a", 0, 0, v1::SKIPPED},
                                 {"a", 0, 1, v1::PASS, 1.0},
                                 {"a", 0, 2, v1::PASS, 2.0}});
  EXPECT_EQ(response.groups(0).worst_row(), 2);
  response =
      Summarize(request, {{"a", 0, 0, v1::SKIPPED}, {"a", 0, 1, v1::FAIL}});
  EXPECT_FALSE(response.groups(0).has_worst());
  EXPECT_EQ(response.groups(0).worst_row(), 1);
}

TEST(RowGroupsTest, NanIsTheWorstValue) {
  const auto request = MakeRequest({}, "nl2");
  for (const bool is_first : {true, false}) {
    std::vector<RowSpec> rows = {{"a", 0, 0, v1::FAIL, kInf}};
    rows.insert(is_first ? rows.begin() : rows.end(),
                {"a", 0, 0, v1::FAIL, std::nan("")});
    const Response response = Summarize(request, rows);
    EXPECT_TRUE(std::isnan(response.groups(0).worst()));
    EXPECT_EQ(response.groups(0).worst_row(), is_first ? 0 : 1);
  }
}

TEST(RowGroupsTest, TheLowestValueIsTheWorstIfHigherIsBetter) {
  auto groups = RowGroups::Create(MakeRequest({}, "cosine"), MakeComparison());
  ASSERT_TRUE(groups.ok());
  int64_t number = 0;
  for (const double value : {0.5, -0.5, 0.9}) {
    v1::ComparisonRow row = MakeRow(number++, {});
    auto* metric = row.add_metrics();
    metric->set_metric("cosine");
    metric->set_value(value);
    groups->Add(row);
  }
  Response response;
  groups->MoveTo(response);
  EXPECT_EQ(response.groups(0).worst(), -0.5);
  EXPECT_EQ(response.groups(0).worst_row(), 1);
}

TEST(RowGroupsTest, CountsTargetsThatAreNotFinite) {
  auto groups = RowGroups::Create(MakeRequest({}), MakeComparison());
  ASSERT_TRUE(groups.ok());
  v1::ComparisonRow row = MakeRow(0, {});
  row.mutable_golden()->set_nan_count(1);
  groups->Add(row);
  row.mutable_target()->set_infinity_count(1);
  groups->Add(row);
  Response response;
  groups->MoveTo(response);
  EXPECT_EQ(response.groups(0).non_finite_count(), 1);
}

TEST(RowGroupsTest, RefusesWhatTheDaemonDoesNotHave) {
  for (const Request& request :
       {MakeRequest({}, "none"), MakeRequest({}, "Share"),
        MakeRequest({Request::OP, Request::OP}),
        MakeRequest({Request::GROUP_BY_UNSPECIFIED}),
        MakeRequest({static_cast<Request::GroupBy>(9)})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        RowGroups::Create(request, MakeComparison()).status()))
        << request.ShortDebugString();
  }
}

TEST(RowGroupsTest, ItsSizeGrowsWithItsGroupsOnly) {
  auto groups = RowGroups::Create(MakeRequest({Request::OP}), MakeComparison());
  ASSERT_TRUE(groups.ok());
  groups->Add(MakeRow(0, {std::string(1000, 'a')}));
  const size_t size = groups->size_bytes();
  EXPECT_GE(size, 1000u);
  groups->Add(MakeRow(1, {std::string(1000, 'a')}));
  EXPECT_EQ(groups->size_bytes(), size);
}

}  // namespace
}  // namespace msitd::compare
