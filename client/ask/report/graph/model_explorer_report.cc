// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/graph/model_explorer_report.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "client/ask/text/headline.h"
#include "client/ask/text/partial_text.h"
#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"
#include "protos/bounds/bound_share.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using Json = nlohmann::ordered_json;

// Maximum length of the text of an attribute.
constexpr size_t kAttributeColumnsMax = 400;

// Maximum number of levels of modules that are counted. Only hostile names have
// more.
constexpr int kLevelsMax = 64;

// Names may have any bytes; JSON has only valid UTF-8.
std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string AttributeText(std::string_view text) {
  return ShortenEnd(Printable(text), kAttributeColumnsMax);
}

// The result of an op, from the worst to the best.
enum class Result { kFail, kUnmatched, kNotCompared, kPass, kSkipped };

struct ResultStyle {
  const char* word;
  const char* background;
  const char* text;
};

constexpr ResultStyle kStyles[] = {{"fail", "#d93025", "#ffffff"},
                                   {"unmatched", "#f9ab00", "#000000"},
                                   {"not compared", "#9aa0a6", "#000000"},
                                   {"pass", "#34a853", "#000000"},
                                   {"skipped", "#dadce0", "#000000"}};

const ResultStyle& StyleOf(Result result) {
  return kStyles[static_cast<size_t>(result)];
}

// The rows of one op.
struct Op {
  int64_t pass_count = 0;
  int64_t fail_count = 0;
  int64_t unmatched_count = 0;
  int64_t skipped_count = 0;
  int64_t not_compared_count = 0;
  // The worst row: by SeverityOf, then the one with the largest share of its
  // bound.
  int worst_severity = -1;
  std::optional<double> worst_share;
  Json worst = Json::array();  // Attributes.

  int64_t row_count() const {
    return pass_count + fail_count + unmatched_count + skipped_count;
  }
  Result result() const {
    if (fail_count > 0) return Result::kFail;
    if (unmatched_count > 0) return Result::kUnmatched;
    if (not_compared_count > 0) return Result::kNotCompared;
    return pass_count > 0 ? Result::kPass : Result::kSkipped;
  }
};

// Returns how bad a row is, in the order of Op::result.
int SeverityOf(const v1::ComparisonRow& row) {
  if (row.verdict() == v1::FAIL) return 3;
  if (row.verdict() == v1::UNMATCHED) return 2;
  return row.not_compared() ? 1 : 0;
}

// Returns the path of an op as a namespace: `a.b` becomes `a/b`. The viewer
// separates levels by slashes.
std::string PathOf(std::string_view op) {
  std::string out = Printable(op);
  for (char& each : out) {
    if (each == '/') each = '_';
    if (each == '.') each = '/';
  }
  return out;
}

void AddAttribute(Json& attributes, std::string_view key, std::string value) {
  attributes.push_back(
      {{"key", std::string(key)}, {"value", std::move(value)}});
}

std::string SideText(const v1::ComparedTensor& side) {
  std::string shape;
  for (const int64_t dim : side.shape()) {
    if (!shape.empty()) shape += ",";
    shape += std::to_string(dim);
  }
  return fmt::format("{}[{}]", DTypeName(static_cast<DType>(side.dtype())),
                     shape);
}

// Returns a row as attributes of the node of its op.
Json AttributesOf(const v1::ComparisonRow& row,
                  const std::optional<BoundShare>& share) {
  Json out = Json::array();
  AddAttribute(out, "worst row", std::to_string(row.row()));
  AddAttribute(out, "worst row: verdict",
               WordOf(std::string_view(v1::Verdict_Name(row.verdict()))));
  AddAttribute(
      out, "worst row: tensor",
      AttributeText(fmt::format("{}/{} of rank {}, token {}, call {}",
                                IoName(static_cast<Io>(row.io())), row.index(),
                                row.rank(), row.token(), row.call())));
  if (!row.reason().empty()) {
    AddAttribute(out, "worst row: reason", AttributeText(row.reason()));
  }
  if (share.has_value()) {
    AddAttribute(out, "worst row: share of bound",
                 fmt::format("{:.4g} ({})", share->share, share->metric));
  }
  if (row.has_golden()) AddAttribute(out, "golden", SideText(row.golden()));
  if (row.has_target()) AddAttribute(out, "target", SideText(row.target()));
  for (const v1::MetricValue& metric : row.metrics()) {
    AddAttribute(out, metric.metric(), fmt::format("{:.6g}", metric.value()));
  }
  for (const v1::CustomMetric& metric : row.custom_metrics()) {
    if (!metric.has_value()) continue;
    AddAttribute(out, AttributeText(metric.metric()),
                 fmt::format("{:.6g}", metric.value()));
  }
  return out;
}

class ModelExplorerReport final : public ReportWriter {
 public:
  ModelExplorerReport(ModelExplorerFile file, Allowed allowed,
                      const std::vector<v1::Metric>& metrics, ReportSink sink)
      : file_(file),
        allowed_(allowed),
        metrics_(metrics),
        sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    comparison_ = comparison;
    bounds_.emplace(comparison, metrics_);
    return absl::OkStatus();
  }

  absl::Status Add(const v1::ComparisonRow& row) override;
  absl::StatusOr<std::string> Finish() override;

 private:
  struct Entry {
    std::string name;
    Op op;
  };

  Op& OpOf(const std::string& name);
  // Returns whether the op has parts, which are nodes below it.
  bool HasParts(const Entry& entry) const;
  Json NodeOf(const Entry& entry) const;
  Json GroupAttributes() const;
  absl::Status WriteGraph();
  absl::Status WriteNodeData();

  const ModelExplorerFile file_;
  const Allowed allowed_;
  const std::vector<v1::Metric> metrics_;
  const ReportSink sink_;
  v1::Comparison comparison_;
  std::optional<Bounds> bounds_;
  // In the order of their first rows, which is that of execution.
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> numbers_;
  // Paths that have nodes below them, with the number of ops by result.
  std::map<std::string, std::map<Result, int64_t>, std::less<>> groups_;
};

Op& ModelExplorerReport::OpOf(const std::string& name) {
  const auto [at, is_new] = numbers_.emplace(name, entries_.size());
  if (is_new) entries_.push_back({name, {}});
  return entries_[at->second].op;
}

absl::Status ModelExplorerReport::Add(const v1::ComparisonRow& row) {
  Op& op = OpOf(row.op());
  switch (row.verdict()) {
    case v1::PASS:
      ++op.pass_count;
      break;
    case v1::UNMATCHED:
      ++op.unmatched_count;
      break;
    case v1::SKIPPED:
      ++op.skipped_count;
      op.not_compared_count += row.not_compared() ? 1 : 0;
      break;
    default:
      ++op.fail_count;
  }
  const std::optional<BoundShare> share = bounds_->Decided(row);
  const int severity = SeverityOf(row);
  const bool is_larger =
      share.has_value() &&
      (!op.worst_share.has_value() || share->share > *op.worst_share ||
       (std::isnan(share->share) && !std::isnan(*op.worst_share)));
  const bool is_worst = severity > op.worst_severity ||
                        (severity == op.worst_severity && is_larger);
  if (!is_worst) return absl::OkStatus();
  op.worst_severity = severity;
  op.worst_share =
      share.has_value() ? std::optional(share->share) : std::nullopt;
  if (file_ == ModelExplorerFile::kGraph) op.worst = AttributesOf(row, share);
  return absl::OkStatus();
}

bool ModelExplorerReport::HasParts(const Entry& entry) const {
  return groups_.contains(PathOf(entry.name));
}

Json ModelExplorerReport::NodeOf(const Entry& entry) const {
  const std::string path = PathOf(entry.name);
  const size_t slash = path.rfind('/');
  std::string label =
      slash == std::string::npos ? path : path.substr(slash + 1);
  std::string group = slash == std::string::npos ? "" : path.substr(0, slash);
  // A module is also a group. Its own tensors are a node inside of it.
  if (HasParts(entry)) {
    group = path;
    label += " (module)";
  }
  if (label.empty()) label = "(unnamed)";
  const Op& op = entry.op;
  Json attributes = Json::array();
  AddAttribute(attributes, "verdict", StyleOf(op.result()).word);
  for (const auto& [key, count] :
       {std::pair("rows", op.row_count()), std::pair("pass", op.pass_count),
        std::pair("fail", op.fail_count),
        std::pair("unmatched", op.unmatched_count),
        std::pair("skipped", op.skipped_count)}) {
    AddAttribute(attributes, key, std::to_string(count));
  }
  for (const Json& one : op.worst) attributes.push_back(one);
  Json out = {{"id", Printable(entry.name)},
              {"label", std::move(label)},
              {"namespace", std::move(group)},
              {"attrs", std::move(attributes)},
              {"incomingEdges", Json::array()}};
  if (op.result() != Result::kPass && op.result() != Result::kSkipped) {
    out["style"] = {{"backgroundColor", StyleOf(op.result()).background}};
  }
  return out;
}

Json ModelExplorerReport::GroupAttributes() const {
  Json out = Json::object();
  Json& whole = out[""];
  whole["comparison"] = AttributeText(comparison_.name());
  whole["verdict"] = VerdictWord(comparison_, allowed_);
  whole["golden"] = AttributeText(
      RunPlaceText(comparison_.golden_run(), comparison_.golden_source()));
  whole["target"] = AttributeText(
      RunPlaceText(comparison_.target_run(), comparison_.target_source()));
  whole["result"] = AttributeText(Headline(comparison_, allowed_));
  if (!comparison_.judged_comparison().empty()) {
    whole["judged from"] = AttributeText(comparison_.judged_comparison());
  }
  for (const auto& [path, counts] : groups_) {
    if (path.empty()) continue;
    for (const auto& [result, count] : counts) {
      out[path][StyleOf(result).word] = fmt::format("{} ops", count);
    }
  }
  return out;
}

absl::Status ModelExplorerReport::WriteGraph() {
  const std::string name = Printable(comparison_.name());
  MSITD_RETURN_IF_ERROR(sink_(fmt::format(
      "{{\"label\":{},\"graphs\":[{{\"id\":{},\"nodes\":[",
      TextOf(Json(fmt::format("msitd {}", name))), TextOf(Json(name)))));
  // Without an order, nodes have no edges. Comparisons of earlier versions do
  // not state whether there is one.
  const bool has_order = comparison_.has_judge_context() &&
                         !comparison_.judge_context().has_unknown_order();
  for (size_t i = 0; i < entries_.size(); ++i) {
    Json node = NodeOf(entries_[i]);
    if (i > 0 && has_order) {
      node["incomingEdges"].push_back(
          {{"sourceNodeId", Printable(entries_[i - 1].name)},
           {"sourceNodeOutputId", "0"},
           {"targetNodeInputId", "0"},
           {"metadata", {{"order", "execution"}}}});
    }
    MSITD_RETURN_IF_ERROR(sink_((i > 0 ? ",\n" : "\n") + TextOf(node)));
  }
  return sink_(fmt::format("],\n\"groupNodeAttributes\":{}}}]}}\n",
                           TextOf(GroupAttributes())));
}

absl::Status ModelExplorerReport::WriteNodeData() {
  MSITD_RETURN_IF_ERROR(
      sink_(fmt::format("{{{}:{{\"name\":\"verdict\",\"results\":{{",
                        TextOf(Json(Printable(comparison_.name()))))));
  for (size_t i = 0; i < entries_.size(); ++i) {
    const ResultStyle& style = StyleOf(entries_[i].op.result());
    const Json result = {{"value", style.word},
                         {"bgColor", style.background},
                         {"textColor", style.text}};
    MSITD_RETURN_IF_ERROR(sink_(fmt::format(
        "{}\n{}:{}", i > 0 ? "," : "",
        TextOf(Json(Printable(entries_[i].name))), TextOf(result))));
  }
  return sink_(
      "},\n\"showExpandedSummaryOnGroupNode\":true,"
      "\"showLabelCountColumnsInChildrenStatsTable\":true}}\n");
}

absl::StatusOr<std::string> ModelExplorerReport::Finish() {
  for (const Entry& entry : entries_) {
    const std::string path = PathOf(entry.name);
    size_t slash = path.find('/');
    for (int level = 0; level < kLevelsMax && slash != std::string::npos;
         ++level) {
      ++groups_[path.substr(0, slash)][entry.op.result()];
      slash = path.find('/', slash + 1);
    }
  }
  MSITD_RETURN_IF_ERROR(file_ == ModelExplorerFile::kGraph ? WriteGraph()
                                                           : WriteNodeData());
  return "";
}

}  // namespace

std::unique_ptr<ReportWriter> MakeModelExplorerReport(
    ModelExplorerFile file, Allowed allowed,
    const std::vector<v1::Metric>& metrics, ReportSink sink) {
  return std::make_unique<ModelExplorerReport>(file, allowed, metrics,
                                               std::move(sink));
}

}  // namespace msitd::ask
