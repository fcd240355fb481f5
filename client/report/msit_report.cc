// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <utility>

#include "client/report/report_writer.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

constexpr std::string_view kHeading =
    "token_id,data_id,golden_data_path,golden_op_type,golden_dtype,"
    "golden_shape,golden_max_value,golden_min_value,golden_mean_value,"
    "my_data_path,my_op_type,my_dtype,my_shape,my_max_value,my_min_value,"
    "my_mean_value,cosine_similarity,max_relative_error,mean_relative_error,"
    "max_absolute_error,mean_absolute_error,kl_divergence,"
    "relative_euclidean_distance,cmp_fail_reason";

constexpr std::string_view kShapeReason = "data shape doesn't match.";

// Not finite once it is a float, which is how msit sees it.
bool IsNonFinite(const v1::ComparedTensor& side) {
  const auto overflows = [](double x) {
    return std::isinf(static_cast<float>(x));
  };
  return side.nan_count() > 0 || side.infinity_count() > 0 ||
         (side.has_max() && overflows(side.max())) ||
         (side.has_min() && overflows(side.min()));
}

// Why msit would not compare; empty if it would.
std::string Reason(const v1::ComparisonRow& row) {
  std::string out;
  const auto add = [&out](bool applies, std::string_view text) {
    if (!applies) return;
    if (!out.empty()) out += ' ';
    out += text;
  };
  add(ElementCount(row.golden().shape()) != ElementCount(row.target().shape()),
      kShapeReason);
  // Of complex elements msit looks at the real parts only.
  const bool is_measured = MetricOf(row, "msit_kl").has_value();
  add(!is_measured && IsNonFinite(row.golden()),
      "golden_data includes NAN or inf.");
  add(!is_measured && IsNonFinite(row.target()),
      "my_data includes NAN or inf.");
  return out;
}

std::string Single(bool has, double value) {
  // NaN is an empty cell there.
  return has ? PythonFloat(static_cast<float>(value)) : std::string();
}

std::string Side(const v1::ComparedTensor& side) {
  // msit lets NaN and infinities into all three. What is known of complex
  // elements is not that of their real parts.
  const bool has = side.has_max() && side.nan_count() == 0 &&
                   !IsComplex(static_cast<DType>(side.dtype()));
  const double mean = has ? MeanOf(side) : 0;
  return fmt::format("{},,{},{},{},{},{}", CsvCell(side.name()),
                     TorchDType(side), CsvCell(PythonShape(side)),
                     Single(has, side.max()), Single(has, side.min()),
                     Single(has && !std::isnan(mean), mean));
}

class MsitReport final : public ReportWriter {
 public:
  MsitReport(bool keeps_all, ReportSink sink)
      : keeps_all_(keeps_all), sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    std::string line(kHeading);
    for (const std::string& name : comparison.custom_metrics()) {
      custom_.push_back(name);
      line += ',' + CsvCell(name);
    }
    return sink_(line + '\n');
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    if (!row.has_golden() || !row.has_target()) {
      ++unmatched_;
      return absl::OkStatus();
    }
    const int64_t data_id = next_id_++;
    std::string reason = Reason(row);
    const bool one_int8 = (row.golden().dtype() == v1::D_TYPE_INT8) !=
                          (row.target().dtype() == v1::D_TYPE_INT8);
    if (!keeps_all_ && (reason == kShapeReason || one_int8)) {
      ++left_out_;
      return absl::OkStatus();
    }
    std::string metrics = ",,,,,,";
    // The bytes are not there, or the policy wants equal shapes.
    if (reason.empty() && row.metrics_size() == 0) reason = row.reason();
    if (reason.empty() && ElementCount(row.golden().shape()) > 0) {
      MSITD_ASSIGN_OR_RETURN(metrics, Metrics(row));
    }
    const std::string custom = AddCustom(row, reason);
    return sink_(fmt::format("{},{},{},{},{},{}{}\n", row.token(), data_id,
                             Side(row.golden()), Side(row.target()), metrics,
                             CsvCell(reason), custom));
  }

  absl::StatusOr<std::string> Finish() override {
    if (unmatched_ + left_out_ == 0) return "";
    if (keeps_all_) {
      return fmt::format("{} unmatched rows are left out, as msit does",
                         unmatched_);
    }
    return fmt::format(
        "{} unmatched rows, and {} that differ in their number of elements or "
        "of which one side is int8, are left out, as msit does",
        unmatched_, left_out_);
  }

 private:
  // Returns the cells of the custom metrics; their texts go behind the reason.
  std::string AddCustom(const v1::ComparisonRow& row,
                        std::string& reason) const {
    std::string cells;
    for (const std::string& name : custom_) {
      cells += ',';
      const v1::CustomMetric* metric = CustomMetricOf(row, name);
      if (metric == nullptr) continue;
      if (metric->has_value() && !std::isnan(metric->value())) {
        cells += PythonFloat(metric->value());
      }
      if (!metric->text().empty() && !reason.empty()) reason += ' ';
      reason += metric->text();
    }
    return cells;
  }

  static absl::StatusOr<std::string> Metrics(const v1::ComparisonRow& row) {
    if (!MetricOf(row, "msit_cosine").has_value()) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "row {} has no msit metrics; compare with --metrics "
                        "msit or --preset msit",
                        row.row());
    }
    const auto cell = [&row](std::string_view name) {
      const auto value = MetricOf(row, name);
      return value.has_value() ? PythonFloat(*value) : std::string();
    };
    const double cosine = RoundDecimals(*MetricOf(row, "msit_cosine"), 10);
    return fmt::format(
        "{},{},{},{},{},{},{}", PythonFloat(cosine), cell("msit_max_rel"),
        cell("msit_mean_rel"), cell("msit_max_abs"), cell("msit_mean_abs"),
        cell(MetricOf(row, "msit_kl") ? "msit_kl" : "kl"), cell("msit_euclid"));
  }

  const bool keeps_all_;
  const ReportSink sink_;
  std::vector<std::string> custom_;
  int64_t next_id_ = 0;
  int64_t unmatched_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeMsitReport(bool keeps_all, ReportSink sink) {
  return std::make_unique<MsitReport>(keeps_all, std::move(sink));
}

}  // namespace msitd::ctl
