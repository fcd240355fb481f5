// SPDX-License-Identifier: Apache-2.0
#include "client/report/page/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "client/report/page/report_page.h"
#include "client/report/page/row_histograms.h"
#include "client/report/schema/row_fields.h"
#include "client/text/conclusion.h"
#include "client/text/maker_text.h"
#include "client/text/partial_text.h"
#include "client/text/policy_text.h"
#include "client/text/text.h"
#include "client/text/tolerance_text.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

constexpr std::string_view kPlaceholder = "%DATA%";

// JSON of a string that may stand in a page: no `<`, so that no tag ends it.
// What is not UTF-8 cannot come from a proto.
std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || c == '<') {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string JsonNumber(std::optional<double> value) {
  if (!value.has_value()) return "null";
  if (std::isnan(*value)) return "\"nan\"";
  if (std::isinf(*value)) return *value < 0 ? "\"-inf\"" : "\"inf\"";
  return fmt::format("{}", *value);
}

// Both sides of a property, or one if they agree.
std::string Pair(const v1::ComparisonRow& row,
                 std::string (*text)(const v1::ComparedTensor&)) {
  const std::string golden = row.has_golden() ? text(row.golden()) : "-";
  const std::string target = row.has_target() ? text(row.target()) : "-";
  return golden == target ? golden : golden + "/" + target;
}

// `[[counts],below,above,nan]`, or null.
std::string SideJson(const std::optional<v1::Histogram>& side) {
  if (!side.has_value()) return "null";
  return fmt::format("[[{}],{},{},{}]", fmt::join(side->counts(), ","),
                     side->below_count(), side->above_count(),
                     side->nan_count());
}

// `"row":{...}`; both sides have the same bins.
std::string HistogramJson(const RowHistogram& row) {
  const v1::Histogram& bins = row.golden.has_value()
                                  ? *row.golden
                                  : row.target.value_or(v1::Histogram());
  return fmt::format(
      "\"{}\":{{\"low\":{},\"high\":{},\"bins\":{},\"golden\":{},\"target\":{},"
      "\"note\":{}}}",
      row.row, JsonNumber(bins.low()), JsonNumber(bins.high()),
      bins.counts_size(), SideJson(row.golden), SideJson(row.target),
      JsonText(row.note));
}

class HtmlReport final : public ReportWriter {
 public:
  HtmlReport(std::vector<v1::Metric> metrics, const RowHistograms& histograms,
             ReportSink sink)
      : metrics_(std::move(metrics)),
        histograms_(histograms),
        sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    custom_ = comparison.custom_metrics();
    const std::string_view page = ReportPage();
    MSITD_RETURN_IF_ERROR(sink_(page.substr(0, page.find(kPlaceholder))));
    std::string names;
    std::string higher;
    std::string custom;
    const auto add = [](std::string text, std::string& list) {
      list += (list.empty() ? "" : ",") + text;
    };
    std::string units;
    for (const v1::Metric& metric : metrics_) {
      add(JsonText(metric.name()), names);
      add(fmt::format("{}", metric.direction() == v1::Metric::HIGHER_IS_BETTER),
          higher);
      add(JsonText(metric.unit()), units);
    }
    for (const std::string& metric : custom_) {
      add(JsonText(metric), names);
      add("false", higher);
      add(JsonText(""), units);
      add(JsonText(metric), custom);
    }
    return sink_(
        fmt::format("{{\"metrics\":[{}],\"higher\":[{}],\"units\":[{}],"
                    "\"custom\":[{}],\"comparison\":{},\"rows\":[",
                    names, higher, units, custom, ComparisonJson(comparison)));
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    // Verdicts are numbered from 1.
    std::string line = fmt::format(
        "{}[{},{},{},{},{},{},{},{},{},{},{},{}", is_first_ ? "" : ",\n",
        row.row(), row.rank(), row.token(), TextId(row.op()), row.call(),
        TextId(IoName(static_cast<Io>(row.io()))), TextId(row.index()),
        TextId(Pair(row,
                    [](const v1::ComparedTensor& side) {
                      return std::string(
                          DTypeName(static_cast<DType>(side.dtype())));
                    })),
        TextId(Pair(row, PythonShape)), static_cast<int>(row.verdict()) - 1,
        TextId(OriginText(row)), TextId(row.reason()));
    is_first_ = false;
    for (const v1::Metric& metric : metrics_) {
      line += ',' + JsonNumber(MetricOf(row, metric.name()));
    }
    std::string texts;
    for (const std::string& name : custom_) {
      const v1::CustomMetric* metric = CustomMetricOf(row, name);
      const bool has_value = metric != nullptr && metric->has_value();
      line += ',' + (has_value ? JsonNumber(metric->value()) : "null");
      texts += fmt::format(
          ",{}", TextId(metric == nullptr ? std::string() : metric->text()));
    }
    line += texts;
    return sink_(line + ']');
  }

  absl::StatusOr<std::string> Finish() override {
    MSITD_RETURN_IF_ERROR(sink_("],\"texts\":["));
    bool first = true;
    for (const std::string& text : texts_) {
      MSITD_RETURN_IF_ERROR(sink_((first ? "" : ",") + JsonText(text)));
      first = false;
    }
    MSITD_RETURN_IF_ERROR(sink_(fmt::format(
        "],\"histograms\":{{\"limit\":{},\"rows\":{{", histograms_.row_max())));
    const char* comma = "";
    for (const RowHistogram& row : histograms_.rows()) {
      MSITD_RETURN_IF_ERROR(sink_(comma + HistogramJson(row)));
      comma = ",\n";
    }
    const std::string_view page = ReportPage();
    MSITD_RETURN_IF_ERROR(sink_("}}}"));
    MSITD_RETURN_IF_ERROR(
        sink_(page.substr(page.find(kPlaceholder) + kPlaceholder.size())));
    return "";
  }

 private:
  static std::string ComparisonJson(const v1::Comparison& comparison) {
    std::string facts;
    const auto fact = [&facts](std::string_view name, std::string_view text) {
      facts += fmt::format("{}[{},{}]", facts.empty() ? "" : ",",
                           JsonText(name), JsonText(text));
    };
    if (comparison.partial()) fact("partial", PartialLines(comparison));
    fact("golden", comparison.golden_run());
    fact("target", comparison.target_run());
    fact("state", WordOf(v1::Comparison::State_Name(comparison.state())));
    if (comparison.has_input_difference()) {
      fact("inputs", InputDifferenceText(comparison.input_difference()));
    }
    fact("rows", RowCountsText(comparison));
    for (const auto& [label, text] : FindingTexts(comparison)) {
      fact(label, text);
    }
    for (const std::string& metric : comparison.custom_metrics()) {
      fact("custom metric", metric);
    }
    for (const std::string& needed : RequiredToleranceTexts(comparison)) {
      fact(RequiredToleranceLabel(comparison), needed);
    }
    if (comparison.hopeless_count() > 0) {
      fact("no bound helps", HopelessText(comparison));
    }
    const Conclusion conclusion =
        ConclusionOf(comparison, /*allows_partial=*/false);
    return fmt::format(
        "{{\"name\":{},\"passes\":{},\"partial\":{},\"facts\":[{}]}}",
        JsonText(comparison.name()), conclusion == Conclusion::kPass,
        conclusion == Conclusion::kPartial, facts);
  }

  // Most texts are there many times.
  size_t TextId(std::string_view text) {
    const auto [found, is_new] = ids_.emplace(text, texts_.size());
    if (is_new) texts_.emplace_back(text);
    return found->second;
  }

  const std::vector<v1::Metric> metrics_;
  google::protobuf::RepeatedPtrField<std::string> custom_;
  const RowHistograms& histograms_;
  const ReportSink sink_;
  bool is_first_ = true;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, size_t> ids_;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeHtmlReport(std::vector<v1::Metric> metrics,
                                             const RowHistograms& histograms,
                                             ReportSink sink) {
  return std::make_unique<HtmlReport>(std::move(metrics), histograms,
                                      std::move(sink));
}

}  // namespace msitd::ctl
