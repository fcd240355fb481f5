// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/graph/model_explorer_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

v1::ComparisonRow Row(const std::string& op, v1::Verdict verdict,
                      double nl2 = 0) {
  v1::ComparisonRow out;
  out.set_op(op);
  out.set_verdict(verdict);
  out.set_predicate("nl2 <= 0.1");
  out.set_io(v1::IO_OUTPUT);
  out.set_index("0");
  out.mutable_golden()->set_dtype(v1::D_TYPE_FLOAT32);
  out.mutable_golden()->add_shape(2);
  out.mutable_target()->set_dtype(v1::D_TYPE_BFLOAT16);
  v1::MetricValue& metric = *out.add_metrics();
  metric.set_metric("nl2");
  metric.set_value(nl2);
  return out;
}

v1::Comparison ComparisonOf(bool has_order = true) {
  v1::Comparison out;
  out.set_name("c-000001");
  out.set_golden_run("g");
  out.set_target_run("t/\xff");
  out.set_state(v1::Comparison::DONE);
  out.set_pass_count(1);
  out.mutable_judge_context()->set_has_unknown_order(!has_order);
  v1::RequiredTolerance& bound = *out.add_required_tolerances();
  bound.set_predicate("nl2 <= 0.1");
  bound.set_metric("nl2");
  bound.set_bound(0.1);
  return out;
}

std::string TextOf(ModelExplorerFile file, std::vector<v1::ComparisonRow> rows,
                   const v1::Comparison& comparison) {
  v1::Metric nl2;
  nl2.set_name("nl2");
  std::string out;
  const auto writer = MakeModelExplorerReport(file, /*allowed=*/false, {nl2},
                                              [&out](std::string_view bytes) {
                                                out += bytes;
                                                return absl::OkStatus();
                                              });
  EXPECT_TRUE(writer->Begin(comparison).ok());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].set_row(static_cast<int64_t>(i));
    EXPECT_TRUE(writer->Add(rows[i]).ok());
  }
  EXPECT_TRUE(writer->Finish().ok());
  return out;
}

Json GraphOf(const std::vector<v1::ComparisonRow>& rows,
             bool has_order = true) {
  return Json::parse(
      TextOf(ModelExplorerFile::kGraph, rows, ComparisonOf(has_order)));
}

// Checks a value against the fields of its type, as the interfaces of Model
// Explorer list them: fields with `?` may be absent, and there are no others.
void ExpectFields(const Json& value,
                  const std::map<std::string, Json::value_t>& fields) {
  ASSERT_TRUE(value.is_object()) << value;
  std::set<std::string> known;
  for (const auto& [field, type] : fields) {
    const bool is_optional = field.ends_with('?');
    const std::string name = field.substr(0, field.size() - is_optional);
    known.insert(name);
    if (is_optional && !value.contains(name)) continue;
    ASSERT_TRUE(value.contains(name)) << name << " of " << value;
    EXPECT_EQ(value[name].type(), type) << name << " of " << value;
  }
  for (const auto& [name, unused] : value.items()) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
}

constexpr auto kText = Json::value_t::string;
constexpr auto kList = Json::value_t::array;
constexpr auto kObject = Json::value_t::object;
constexpr auto kTruth = Json::value_t::boolean;

void ExpectGraphCollection(const Json& file) {
  ExpectFields(file, {{"label", kText}, {"graphs", kList}});
  for (const Json& graph : file["graphs"]) {
    ExpectFields(
        graph,
        {{"id", kText}, {"nodes", kList}, {"groupNodeAttributes?", kObject}});
    std::set<std::string> ids;
    for (const Json& node : graph["nodes"]) {
      ExpectFields(node, {{"id", kText},
                          {"label", kText},
                          {"namespace", kText},
                          {"attrs?", kList},
                          {"incomingEdges?", kList},
                          {"style?", kObject}});
      EXPECT_TRUE(ids.insert(node["id"]).second) << node["id"];
      for (const Json& attribute : node["attrs"]) {
        ExpectFields(attribute, {{"key", kText}, {"value", kText}});
      }
      if (node.contains("style")) {
        ExpectFields(node["style"], {{"backgroundColor?", kText}});
      }
    }
    for (const Json& node : graph["nodes"]) {
      for (const Json& edge : node["incomingEdges"]) {
        ExpectFields(edge, {{"sourceNodeId", kText},
                            {"sourceNodeOutputId", kText},
                            {"targetNodeInputId", kText},
                            {"metadata?", kObject}});
        EXPECT_TRUE(ids.contains(edge["sourceNodeId"]));
      }
    }
    for (const Json& group : graph["groupNodeAttributes"]) {
      for (const Json& value : group) EXPECT_TRUE(value.is_string());
    }
  }
}

const Json& NodeOf(const Json& file, const std::string& id) {
  for (const Json& node : file["graphs"][0]["nodes"]) {
    if (node["id"] == id) return node;
  }
  static const Json none;
  ADD_FAILURE() << id;
  return none;
}

std::string AttributeOf(const Json& node, const std::string& key) {
  for (const Json& attribute : node["attrs"]) {
    if (attribute["key"] == key) return attribute["value"];
  }
  return "";
}

TEST(ModelExplorerReportTest, GraphHasTheFieldsOfTheViewer) {
  ExpectGraphCollection(GraphOf({Row("model.layers.0.attn", v1::PASS, 0.01),
                                 Row("model.layers.0", v1::FAIL, 0.2),
                                 Row("model", v1::SKIPPED)}));
  ExpectGraphCollection(GraphOf({}));
}

TEST(ModelExplorerReportTest, OpsAreInTheHierarchyOfTheirModules) {
  const Json file =
      GraphOf({Row("model.layers.0.attn", v1::PASS),
               Row("model.layers.0", v1::PASS), Row("head", v1::PASS)});
  const Json& leaf = NodeOf(file, "model.layers.0.attn");
  EXPECT_EQ(leaf["namespace"], "model/layers/0");
  EXPECT_EQ(leaf["label"], "attn");
  const Json& module = NodeOf(file, "model.layers.0");
  EXPECT_EQ(module["namespace"], "model/layers/0");
  EXPECT_EQ(module["label"], "0 (module)");
  EXPECT_EQ(NodeOf(file, "head")["namespace"], "");
  EXPECT_EQ(module["incomingEdges"][0]["sourceNodeId"], "model.layers.0.attn");
  EXPECT_EQ(file["graphs"][0]["groupNodeAttributes"]["model/layers/0"]["pass"],
            "1 ops");
}

TEST(ModelExplorerReportTest, RowsOfAnOpAreOneNodeWithItsWorstRow) {
  const Json file =
      GraphOf({Row("a", v1::PASS, 0.01), Row("a", v1::FAIL, 0.2),
               Row("a", v1::FAIL, 0.4), Row("a", v1::PASS, 0.09)});
  const Json& node = NodeOf(file, "a");
  EXPECT_EQ(AttributeOf(node, "verdict"), "fail");
  EXPECT_EQ(AttributeOf(node, "rows"), "4");
  EXPECT_EQ(AttributeOf(node, "fail"), "2");
  EXPECT_EQ(AttributeOf(node, "worst row"), "2");
  EXPECT_EQ(AttributeOf(node, "nl2"), "0.4");
  EXPECT_EQ(AttributeOf(node, "golden"), "float32[2]");
  EXPECT_EQ(node["style"]["backgroundColor"], "#d93025");
}

TEST(ModelExplorerReportTest, RowsThatWereNotComparedDoNotPass) {
  v1::ComparisonRow skipped = Row("a", v1::SKIPPED);
  skipped.set_not_compared(true);
  const Json file = GraphOf({Row("a", v1::PASS), skipped});
  EXPECT_EQ(AttributeOf(NodeOf(file, "a"), "verdict"), "not compared");
}

TEST(ModelExplorerReportTest, NoEdgesWithoutAnOrder) {
  const Json file = GraphOf({Row("a", v1::PASS), Row("b", v1::PASS)}, false);
  EXPECT_TRUE(NodeOf(file, "b")["incomingEdges"].empty());
}

TEST(ModelExplorerReportTest, HostileNamesAreText) {
  const std::vector<std::string> names = {
      "",          ".",         "..",   "a/b", "a\"},{",
      "\xff.\x01", "</script>", "a..b", "/",   std::string(5000, '.')};
  std::vector<v1::ComparisonRow> rows;
  for (const std::string& name : names) rows.push_back(Row(name, v1::FAIL));
  const std::string text =
      TextOf(ModelExplorerFile::kGraph, rows, ComparisonOf());
  const Json file = Json::parse(text);
  ExpectGraphCollection(file);
  EXPECT_EQ(file["graphs"][0]["nodes"].size(), names.size());
  EXPECT_EQ(NodeOf(file, "a/b")["namespace"], "");
}

TEST(ModelExplorerReportTest, NodeDataHasAResultForEachNode) {
  v1::Comparison comparison = ComparisonOf();
  const std::vector<v1::ComparisonRow> rows = {
      Row("a.b", v1::FAIL, 0.4), Row("a.b", v1::PASS), Row("c", v1::PASS)};
  const Json file =
      Json::parse(TextOf(ModelExplorerFile::kNodeData, rows, comparison));
  const Json graph = GraphOf(rows)["graphs"][0];
  ASSERT_EQ(file.size(), 1u);
  const Json& data = file[graph["id"].get<std::string>()];
  ExpectFields(data, {{"name?", kText},
                      {"results", kObject},
                      {"showExpandedSummaryOnGroupNode?", kTruth},
                      {"showLabelCountColumnsInChildrenStatsTable?", kTruth}});
  EXPECT_EQ(data["results"].size(), graph["nodes"].size());
  for (const Json& node : graph["nodes"]) {
    const Json& result = data["results"][node["id"].get<std::string>()];
    ExpectFields(
        result, {{"value", kText}, {"bgColor?", kText}, {"textColor?", kText}});
  }
  EXPECT_EQ(data["results"]["a.b"]["value"], "fail");
}

}  // namespace
}  // namespace msitd::ask
