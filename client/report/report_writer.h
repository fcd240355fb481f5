// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"

// Reports of a stored comparison, written row by row. docs/reports.md has what
// each of them holds and where it differs from the tool it is named after.
namespace msitd::ctl {

// Takes the next bytes of a report.
using ReportSink = std::function<absl::Status(std::string_view)>;

// Writes one report. Thread-compatible.
class ReportWriter {
 public:
  virtual ~ReportWriter() = default;

  // Called once, first.
  virtual absl::Status Begin(const v1::Comparison& comparison) = 0;

  // FAILED_PRECONDITION if the row lacks what the report needs.
  virtual absl::Status Add(const v1::ComparisonRow& row) = 0;

  // Called once, last. Returns a note for the user, or nothing.
  virtual absl::StatusOr<std::string> Finish() = 0;
};

class RowHistograms;

// What the msprobe report takes its rows from.
enum class MsprobeMode { kAll, kSummary, kMd5 };

std::unique_ptr<ReportWriter> MakeCsvReport(std::vector<std::string> metrics,
                                            ReportSink sink);
std::unique_ptr<ReportWriter> MakeJsonLinesReport(ReportSink sink);
// msit leaves rows with other numbers of elements out of its CSV, but not out
// of its workbook: `keeps_all`.
std::unique_ptr<ReportWriter> MakeMsitReport(bool keeps_all, ReportSink sink);
// Writes the rows with one of `verdicts`, if there are any; it is given all of
// them, since it judges them together.
std::unique_ptr<ReportWriter> MakeMsprobeReport(
    MsprobeMode mode, std::vector<v1::Verdict> verdicts, ReportSink sink);
// `histograms`, which are there when Finish is called, outlive the writer.
std::unique_ptr<ReportWriter> MakeHtmlReport(std::vector<v1::Metric> metrics,
                                             const RowHistograms& histograms,
                                             ReportSink sink);

// The metric with this name, if the row has it.
std::optional<double> MetricOf(const v1::ComparisonRow& row,
                               std::string_view name);

// The custom metric with this name; null if the row has none.
const v1::CustomMetric* CustomMetricOf(const v1::ComparisonRow& row,
                                       std::string_view name);

// Columns behind the others for the custom metrics of a comparison, each with a
// comma before it: value and text of every one.
std::string CustomHeadings(const v1::Comparison& comparison);

// The cells of one row below CustomHeadings. `number` writes values.
std::string CustomCells(const v1::Comparison& comparison,
                        const v1::ComparisonRow& row,
                        std::string (*number)(double value));

// A cell of CSV: quoted only where it must be.
std::string CsvCell(std::string_view text);

// The shortest decimal that reads back as `value`, as Python prints it: `1.0`,
// `1e-05`, `inf`, `nan`.
std::string PythonFloat(double value);

// `value` with so many decimals, as round() of Python has it.
double RoundDecimals(double value, int decimals);

// The mean of all elements as torch takes it in float: NaN with a NaN or with
// infinities of both signs, infinite with others or if their sum overflows. Of
// a tensor that has a summary and elements.
double MeanOf(const v1::ComparedTensor& tensor);

// `[2, 3]`.
std::string PythonShape(const v1::ComparedTensor& tensor);

// `torch.float32`.
std::string TorchDType(const v1::ComparedTensor& tensor);

}  // namespace msitd::ctl
