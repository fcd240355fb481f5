// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <utility>

#include "client/ask/report/schema/row_fields.h"
#include "client/foreign/report/foreign_schemas.h"
#include "protos/base/dtype.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::report {
namespace {

constexpr std::string_view kHeadings[] = {"token_id",
                                          "data_id",
                                          "golden_data_path",
                                          "golden_op_type",
                                          "golden_dtype",
                                          "golden_shape",
                                          "golden_max_value",
                                          "golden_min_value",
                                          "golden_mean_value",
                                          "my_data_path",
                                          "my_op_type",
                                          "my_dtype",
                                          "my_shape",
                                          "my_max_value",
                                          "my_min_value",
                                          "my_mean_value",
                                          "cosine_similarity",
                                          "max_relative_error",
                                          "mean_relative_error",
                                          "max_absolute_error",
                                          "mean_absolute_error",
                                          "kl_divergence",
                                          "relative_euclidean_distance",
                                          "cmp_fail_reason"};

// The metrics of msit itself.
constexpr size_t kMetricColumns = 7;

constexpr std::string_view kShapeReason = "data shape doesn't match.";

// Returns true if a value is not finite after conversion to float, which is the
// type that msit uses.
bool IsNonFinite(const v1::ComparedTensor& side) {
  const auto overflows = [](double x) {
    return std::isinf(static_cast<float>(x));
  };
  return side.nan_count() > 0 || side.infinity_count() > 0 ||
         (side.has_max() && overflows(side.max())) ||
         (side.has_min() && overflows(side.min()));
}

bool IsStatistics(const v1::ComparedTensor& side) {
  return side.kind() == v1::RECORD_KIND_STATISTICS;
}

// Returns why msit would not compare the row; empty if it would.
std::string Reason(const v1::ComparisonRow& row) {
  std::string out;
  const auto add = [&out](bool applies, std::string_view text) {
    if (!applies) return;
    if (!out.empty()) out += ' ';
    out += text;
  };
  add(ElementCount(row.golden().shape()) != ElementCount(row.target().shape()),
      kShapeReason);
  add(IsStatistics(row.golden()), "golden_data has only statistics.");
  add(IsStatistics(row.target()), "my_data has only statistics.");
  // msit compares only the real parts of complex elements.
  const bool is_measured = ask::MetricOf(row, "msit_kl").has_value();
  add(!is_measured && IsNonFinite(row.golden()),
      "golden_data includes NAN or inf.");
  add(!is_measured && IsNonFinite(row.target()),
      "my_data includes NAN or inf.");
  return out;
}

ask::Cell Number(double value) {
  return ask::Real{value, ask::RealStyle::kPython};
}

ask::Cell Single(bool has, double value) {
  // In msit's report, NaN is an empty cell.
  return has ? Number(static_cast<float>(value)) : ask::Cell();
}

void AddSide(const v1::ComparedTensor& side, MsitSide about,
             ask::Cells& cells) {
  // msit writes NaN and infinities into all three cells. The statistics of
  // complex elements do not describe their real parts.
  const bool has = side.has_max() && side.nan_count() == 0 &&
                   !IsComplex(static_cast<DType>(side.dtype()));
  // A side that has statistics may lack some of the three.
  const bool has_mean =
      side.has_mean() || std::isinf(side.max()) || std::isinf(side.min());
  const double mean = has && has_mean ? ask::MeanOf(side) : std::nan("");
  cells.emplace_back(std::move(about.path));
  cells.push_back(about.op_type.empty() ? ask::Cell()
                                        : ask::Cell(std::move(about.op_type)));
  cells.emplace_back(ask::TorchDType(side));
  cells.emplace_back(ask::PythonShape(side));
  cells.push_back(Single(has, side.max()));
  cells.push_back(Single(has && side.has_min(), side.min()));
  cells.push_back(Single(!std::isnan(mean), mean));
}

class MsitSchema final : public ask::TableSchema {
 public:
  MsitSchema(bool keeps_all, MsitSides sides)
      : keeps_all_(keeps_all), sides_(std::move(sides)) {}

  std::vector<std::string> Begin(const v1::Comparison& comparison) override {
    custom_.assign(comparison.custom_metrics().begin(),
                   comparison.custom_metrics().end());
    std::vector<std::string> headings(std::begin(kHeadings),
                                      std::end(kHeadings));
    headings.insert(headings.end(), custom_.begin(), custom_.end());
    return headings;
  }

  absl::Status Add(const v1::ComparisonRow& row,
                   ask::TableSink& table) override {
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
    // The token is a text in msit's report.
    ask::Cells cells = {fmt::format("{}", row.token()), data_id};
    AddSide(row.golden(), About(row.golden(), /*is_golden=*/true), cells);
    AddSide(row.target(), About(row.target(), /*is_golden=*/false), cells);
    // The bytes are missing, or the policy requires equal shapes.
    if (reason.empty() && row.metrics_size() == 0) reason = row.reason();
    if (reason.empty() && ElementCount(row.golden().shape()) > 0) {
      MSITD_RETURN_IF_ERROR(AddMetrics(row, cells));
    } else {
      cells.resize(cells.size() + kMetricColumns);
    }
    const size_t reason_column = cells.size();
    cells.emplace_back();
    AddCustom(row, reason, cells);
    cells[reason_column] = std::move(reason);
    return table.Add(cells);
  }

  absl::StatusOr<std::string> Finish(ask::TableSink& /*table*/) override {
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
  MsitSide About(const v1::ComparedTensor& side, bool is_golden) const {
    return sides_ ? sides_(side, is_golden) : MsitSide{side.name(), ""};
  }

  // The texts of the custom metrics follow the reason.
  void AddCustom(const v1::ComparisonRow& row, std::string& reason,
                 ask::Cells& cells) const {
    for (const std::string& name : custom_) {
      ask::Cell cell;
      const v1::CustomMetric* metric = ask::CustomMetricOf(row, name);
      if (metric != nullptr) {
        if (metric->has_value() && !std::isnan(metric->value())) {
          cell = Number(metric->value());
        }
        if (!metric->text().empty() && !reason.empty()) reason += ' ';
        reason += metric->text();
      }
      cells.push_back(std::move(cell));
    }
  }

  static absl::Status AddMetrics(const v1::ComparisonRow& row,
                                 ask::Cells& cells) {
    const auto cosine = ask::MetricOf(row, "msit_cosine");
    if (!cosine.has_value()) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "row {} has no msit metrics; compare the runs with "
                        "--metrics msit or --preset msit",
                        row.row());
    }
    cells.push_back(Number(ask::RoundDecimals(*cosine, 10)));
    for (const char* name :
         {"msit_max_rel", "msit_mean_rel", "msit_max_abs", "msit_mean_abs",
          ask::MetricOf(row, "msit_kl") ? "msit_kl" : "kl", "msit_euclid"}) {
      const auto value = ask::MetricOf(row, name);
      cells.push_back(value.has_value() ? Number(*value) : ask::Cell());
    }
    return absl::OkStatus();
  }

  const bool keeps_all_;
  const MsitSides sides_;
  std::vector<std::string> custom_;
  int64_t next_id_ = 0;
  int64_t unmatched_ = 0;
  int64_t left_out_ = 0;
};

}  // namespace

std::unique_ptr<ask::TableSchema> MakeMsitSchema(bool keeps_all,
                                                 MsitSides sides) {
  return std::make_unique<MsitSchema>(keeps_all, std::move(sides));
}

}  // namespace msitd::report
