// SPDX-License-Identifier: Apache-2.0
#include "client/report/report_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "client/text/json_text.h"
#include "client/text/policy_text.h"
#include "client/text/text.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"

namespace msitd::ctl {
namespace {

constexpr std::string_view kCsvHeading =
    "row,rank,token,op,call,io,index,verdict,reason,origin,golden_dtype,"
    "golden_shape,golden_min,golden_max,golden_mean,target_dtype,target_shape,"
    "target_min,target_max,target_mean,bitwise_equal,predicate,amplification,"
    "for_want_of_ranks,layout_hint";

std::string ShortestNumber(double value) { return fmt::format("{}", value); }

std::string OptionalNumber(bool has, double value) {
  return has ? ShortestNumber(value) : std::string();
}

std::string SideCells(bool has, const v1::ComparedTensor& side) {
  if (!has) return ",,,,,";
  return fmt::format(
      ",{},{},{},{},{}", DTypeName(static_cast<DType>(side.dtype())),
      CsvCell(PythonShape(side)), OptionalNumber(side.has_min(), side.min()),
      OptionalNumber(side.has_max(), side.max()),
      OptionalNumber(side.has_mean(), side.mean()));
}

class CsvReport final : public ReportWriter {
 public:
  CsvReport(std::vector<std::string> metrics, ReportSink sink)
      : metrics_(std::move(metrics)), sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    comparison_ = comparison;
    std::string line(kCsvHeading);
    for (const std::string& metric : metrics_) line += ',' + metric;
    return sink_(line + CustomHeadings(comparison) + '\n');
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    const std::string origin = row.origin() == v1::ORIGIN_UNSPECIFIED
                                   ? std::string()
                                   : WordOf(v1::Origin_Name(row.origin()));
    std::string line = fmt::format(
        "{},{},{},{},{},{},{},{},{},{}", row.row(), row.rank(), row.token(),
        CsvCell(row.op()), row.call(), IoName(static_cast<Io>(row.io())),
        CsvCell(row.index()), WordOf(v1::Verdict_Name(row.verdict())),
        CsvCell(row.reason()), origin);
    line += SideCells(row.has_golden(), row.golden());
    line += SideCells(row.has_target(), row.target());
    line += fmt::format(
        ",{},{},{},{},{}", row.bitwise_equal(), CsvCell(row.predicate()),
        OptionalNumber(row.has_amplification(), row.amplification()),
        row.for_want_of_ranks(), CsvCell(row.layout_hint()));
    for (const std::string& metric : metrics_) {
      const auto value = MetricOf(row, metric);
      line += ',';
      if (value.has_value()) line += ShortestNumber(*value);
    }
    line += CustomCells(comparison_, row, ShortestNumber);
    return sink_(line + '\n');
  }

  absl::StatusOr<std::string> Finish() override { return ""; }

 private:
  const std::vector<std::string> metrics_;
  const ReportSink sink_;
  v1::Comparison comparison_;
};

class JsonLinesReport final : public ReportWriter {
 public:
  explicit JsonLinesReport(ReportSink sink) : sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    return sink_(ToJson(comparison, false) + '\n');
  }
  absl::Status Add(const v1::ComparisonRow& row) override {
    return sink_(ToJson(row, false) + '\n');
  }
  absl::StatusOr<std::string> Finish() override { return ""; }

 private:
  const ReportSink sink_;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeCsvReport(std::vector<std::string> metrics,
                                            ReportSink sink) {
  return std::make_unique<CsvReport>(std::move(metrics), std::move(sink));
}

std::unique_ptr<ReportWriter> MakeJsonLinesReport(ReportSink sink) {
  return std::make_unique<JsonLinesReport>(std::move(sink));
}

std::optional<double> MetricOf(const v1::ComparisonRow& row,
                               std::string_view name) {
  for (const v1::MetricValue& metric : row.metrics()) {
    if (metric.metric() == name) return metric.value();
  }
  return std::nullopt;
}

const v1::CustomMetric* CustomMetricOf(const v1::ComparisonRow& row,
                                       std::string_view name) {
  for (const v1::CustomMetric& metric : row.custom_metrics()) {
    if (metric.metric() == name) return &metric;
  }
  return nullptr;
}

std::string CustomHeadings(const v1::Comparison& comparison) {
  std::string out;
  for (const std::string& name : comparison.custom_metrics()) {
    out += fmt::format(",{},{}", CsvCell(name), CsvCell(name + ":text"));
  }
  return out;
}

std::string CustomCells(const v1::Comparison& comparison,
                        const v1::ComparisonRow& row,
                        std::string (*number)(double value)) {
  std::string out;
  for (const std::string& name : comparison.custom_metrics()) {
    const v1::CustomMetric* metric = CustomMetricOf(row, name);
    out += ',';
    if (metric != nullptr && metric->has_value())
      out += number(metric->value());
    out += ',';
    if (metric != nullptr) out += CsvCell(metric->text());
  }
  return out;
}

std::string CsvCell(std::string_view text) { return CsvField(text); }

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

double MeanOf(const v1::ComparedTensor& tensor) {
  if (tensor.nan_count() > 0) return std::nan("");
  const auto max = static_cast<float>(tensor.max());
  const auto min = static_cast<float>(tensor.min());
  // Opposite infinities make NaN.
  if (std::isinf(max)) return std::isinf(min) ? max + min : max;
  if (std::isinf(min)) return min;
  const double sum =
      tensor.mean() * static_cast<double>(ElementCount(tensor.shape()));
  return std::isinf(static_cast<float>(sum)) ? std::copysign(HUGE_VAL, sum)
                                             : tensor.mean();
}

double RoundDecimals(double value, int decimals) {
  return std::isfinite(value)
             ? std::strtod(fmt::format("{:.{}f}", value, decimals).c_str(),
                           nullptr)
             : value;
}

std::string PythonShape(const v1::ComparedTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.shape(), ", "));
}

std::string TorchDType(const v1::ComparedTensor& tensor) {
  return fmt::format("torch.{}", DTypeName(static_cast<DType>(tensor.dtype())));
}

}  // namespace msitd::ctl
