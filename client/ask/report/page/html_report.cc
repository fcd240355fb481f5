// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/html_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "client/ask/report/markup_text.h"
#include "client/ask/report/page/alike_reason.h"
#include "client/ask/report/page/page_header.h"
#include "client/ask/report/page/report_page.h"
#include "client/ask/report/page/row_histograms.h"
#include "client/ask/report/page/row_text.h"
#include "client/ask/report/page/shards_text.h"
#include "client/ask/report/schema/row_fields.h"
#include "client/ask/text/conclusion.h"
#include "protos/base/tensor_key.h"
#include "protos/bounds/bound_share.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlaceholder = "%DATA%";
constexpr char kTitlePlaceholder[] = "%TITLE%";

// JSON that may stand in a page: no `<`, so that no tag ends it.
std::string PageText(const Json& json) {
  return absl::StrReplaceAll(
      json.dump(-1, ' ', false, Json::error_handler_t::replace),
      {{"<", "\\u003c"}});
}

// JSON has no NaN and no infinities.
Json NumberJson(std::optional<double> value) {
  if (!value.has_value()) return nullptr;
  if (std::isnan(*value)) return "nan";
  if (std::isinf(*value)) return *value < 0 ? "-inf" : "inf";
  return *value;
}

// `[[counts],below,above,nan]`, or null.
Json SideJson(const std::optional<v1::Histogram>& side) {
  if (!side.has_value()) return nullptr;
  Json counts = Json::array();
  for (const int64_t count : side->counts()) counts.push_back(count);
  return Json::array({std::move(counts), side->below_count(),
                      side->above_count(), side->nan_count()});
}

// Both sides have the same bins.
Json HistogramJson(const RowHistogram& row) {
  const v1::Histogram& bins = row.golden.has_value()
                                  ? *row.golden
                                  : row.target.value_or(v1::Histogram());
  return {{"low", NumberJson(bins.low())},  {"high", NumberJson(bins.high())},
          {"bins", bins.counts_size()},     {"golden", SideJson(row.golden)},
          {"target", SideJson(row.target)}, {"note", row.note}};
}

// `[label, text, row]` of each; -1 for no row.
Json FactsJson(const std::vector<PageFact>& facts) {
  Json out = Json::array();
  for (const PageFact& fact : facts) {
    out.push_back(Json::array({fact.label, fact.text, fact.row}));
  }
  return out;
}

// Returns `[metric, bound]` for each bound in a predicate, without duplicates.
Json BoundsJson(const v1::Comparison& comparison) {
  Json out = Json::array();
  for (const v1::RequiredTolerance& needed : comparison.required_tolerances()) {
    if (std::isnan(needed.bound())) continue;
    Json bound = Json::array({needed.metric(), NumberJson(needed.bound())});
    if (std::find(out.begin(), out.end(), bound) == out.end()) {
      out.push_back(std::move(bound));
    }
  }
  return out;
}

class HtmlReport final : public ReportWriter {
 public:
  HtmlReport(PageFacts facts, const RowHistograms& histograms, ReportSink sink)
      : facts_(std::move(facts)),
        histograms_(histograms),
        sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    custom_ = comparison.custom_metrics();
    run_names_ = {comparison.golden_run(), comparison.target_run()};
    bounds_.emplace(comparison, facts_.metrics);
    const std::string_view page = ReportPage();
    const std::string head_text(page.substr(0, page.find(kPlaceholder)));
    const std::string title = MarkupText(TitleText(comparison));
    MSITD_RETURN_IF_ERROR(
        sink_(absl::StrReplaceAll(head_text, {{kTitlePlaceholder, title}})));
    Json names = Json::array();
    Json higher = Json::array();
    Json units = Json::array();
    for (const v1::Metric& metric : facts_.metrics) {
      metric_ids_.emplace(metric.name(), names.size());
      names.push_back(metric.name());
      higher.push_back(metric.direction() == v1::Metric::HIGHER_IS_BETTER);
      units.push_back(metric.unit());
    }
    for (const std::string& metric : custom_) {
      names.push_back(metric);
      higher.push_back(false);
      units.push_back("");
    }
    const Json head = {{"metrics", std::move(names)},
                       {"higher", std::move(higher)},
                       {"units", std::move(units)},
                       {"custom", custom_},
                       {"bounds", BoundsJson(comparison)},
                       {"comparison", ComparisonJson(comparison)}};
    std::string text = PageText(head);
    // The rows follow in the same object.
    text.pop_back();
    return sink_(text + ",\"rows\":[");
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    const auto decided = bounds_->Decided(row);
    const auto decider = decided.has_value() ? metric_ids_.find(decided->metric)
                                             : metric_ids_.end();
    // Verdicts are numbered from 1.
    Json line = Json::array(
        {row.row(), row.rank(), row.token(), TextId(row.op()), row.call(),
         TextId(IoName(static_cast<Io>(row.io()))), TextId(row.index()),
         TextId(DTypesText(row)), TextId(ShapesText(row)),
         static_cast<int>(row.verdict()) - 1, TextId(OriginText(row)),
         TextId(row.reason()), TextId(row.predicate()), NonFiniteFlags(row),
         decider == metric_ids_.end() ? Json() : Json(decider->second),
         decided.has_value() ? NumberJson(decided->share) : Json()});
    for (const v1::Metric& metric : facts_.metrics) {
      line.push_back(NumberJson(MetricOf(row, metric.name())));
    }
    Json texts = Json::array();
    for (const std::string& name : custom_) {
      const v1::CustomMetric* metric = CustomMetricOf(row, name);
      const bool has_value = metric != nullptr && metric->has_value();
      line.push_back(has_value ? NumberJson(metric->value()) : Json());
      texts.push_back(
          TextId(metric == nullptr ? std::string_view() : metric->text()));
    }
    line.insert(line.end(), texts.begin(), texts.end());
    line.push_back(TextId(row.request()));
    line.push_back(TextId(PairingText(row)));
    line.push_back(TextId(AlikeReason(row.reason(), run_names_)));
    line.push_back(TextId(ShardRanksText(row)));
    line.push_back(TextId(ShardsText(row)));
    return AddItem(PageText(line));
  }

  absl::StatusOr<std::string> Finish() override {
    MSITD_RETURN_IF_ERROR(sink_("],\"texts\":["));
    is_first_ = true;
    for (const std::string& text : texts_) {
      MSITD_RETURN_IF_ERROR(AddItem(PageText(text)));
    }
    MSITD_RETURN_IF_ERROR(
        sink_("],\"histograms\":{\"limit\":" + PageText(histograms_.row_max()) +
              ",\"rows\":{"));
    is_first_ = true;
    for (const RowHistogram& row : histograms_.rows()) {
      MSITD_RETURN_IF_ERROR(AddItem(PageText(std::to_string(row.row)) + ':' +
                                    PageText(HistogramJson(row))));
    }
    const std::string_view page = ReportPage();
    MSITD_RETURN_IF_ERROR(sink_("}}}"));
    MSITD_RETURN_IF_ERROR(
        sink_(page.substr(page.find(kPlaceholder) + kPlaceholder.size())));
    return "";
  }

 private:
  Json ComparisonJson(const v1::Comparison& comparison) const {
    Json first;
    if (comparison.has_first_divergence()) {
      const v1::ComparisonRow& row = comparison.first_divergence();
      first = {{"op", row.op()}, {"token", row.token()}, {"rank", row.rank()}};
    }
    return {{"name", comparison.name()},
            {"verdict", VerdictWord(comparison, /*allowed=*/false)},
            {"first", std::move(first)},
            {"facts", FactsJson(FindingFacts(comparison))},
            {"setup", FactsJson(SetupFacts(comparison, facts_))}};
  }

  // An item of a list or an object, on a line of its own.
  absl::Status AddItem(std::string text) {
    if (!std::exchange(is_first_, false)) text.insert(0, ",\n");
    return sink_(text);
  }

  // Most texts occur many times.
  size_t TextId(std::string_view text) {
    const auto [found, is_new] = ids_.emplace(text, texts_.size());
    if (is_new) texts_.emplace_back(text);
    return found->second;
  }

  const PageFacts facts_;
  google::protobuf::RepeatedPtrField<std::string> custom_;
  std::vector<std::string> run_names_;
  const RowHistograms& histograms_;
  const ReportSink sink_;
  std::optional<Bounds> bounds_;  // Set once the report has begun.
  std::unordered_map<std::string, size_t> metric_ids_;
  bool is_first_ = true;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, size_t> ids_;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeHtmlReport(PageFacts facts,
                                             const RowHistograms& histograms,
                                             ReportSink sink) {
  return std::make_unique<HtmlReport>(std::move(facts), histograms,
                                      std::move(sink));
}

}  // namespace msitd::ask
