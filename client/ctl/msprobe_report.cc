// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/ctl/msprobe_verdict.h"
#include "client/ctl/report_writer.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

constexpr std::string_view kBasic =
    "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor "
    "Shape,NPU Requires_grad,Bench Requires_grad";
constexpr std::string_view kStats =
    ",NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench "
    "l2norm";
constexpr std::string_view kTail =
    ",Requires_grad Consistent,Result,Err_message";
constexpr std::string_view kAbsent = "N/A";

std::string_view MetricColumns(MsprobeMode mode) {
  switch (mode) {
    case MsprobeMode::kAll:
      return ",Cosine,EucDist,MaxAbsErr,MaxRelativeErr,One Thousandth Err "
             "Ratio,Five Thousandths Err Ratio";
    case MsprobeMode::kSummary:
      return ",Max diff,Min diff,Mean diff,L2norm diff,MaxRelativeErr,"
             "MinRelativeErr,MeanRelativeErr,NormRelativeErr";
    case MsprobeMode::kMd5:
      break;
  }
  return ",NPU MD5,BENCH MD5";
}

// A float infinity has a blank in front there, for spreadsheets.
std::string Number(double value) {
  if (std::isnan(value)) return "Nan";
  if (std::isinf(value)) return value < 0 ? " -inf" : " inf";
  return PythonFloat(value);
}

// The grammar of its leaf names.
std::string NameOf(const v1::ComparisonRow& row) {
  const Io io = static_cast<Io>(row.io());
  const bool backward =
      io == Io::kGradInput || io == Io::kGradOutput || io == Io::kGradWeight;
  std::string_view side = "output";
  if (io == Io::kInput || io == Io::kGradOutput) side = "input";
  if (io == Io::kWeight) side = "parameters";
  if (io == Io::kGradWeight) side = "parameters_grad";
  return fmt::format("{}.{}.{}.{}.{}", row.op(), row.call(),
                     backward ? "backward" : "forward", side, row.index());
}

std::string Stats(const v1::ComparedTensor& side) {
  const double kNan = std::nan("");
  const bool nan = side.nan_count() > 0;
  const auto cell = [&](bool has, double value) {
    return has ? Number(nan ? kNan : value) : std::string(kAbsent);
  };
  const double norm = side.infinity_count() > 0 ? HUGE_VAL : side.l2_norm();
  return fmt::format(",{},{},{},{}", cell(side.has_max(), side.max()),
                     cell(side.has_min(), side.min()),
                     cell(side.has_mean(), side.mean()),
                     cell(side.has_l2_norm(), norm));
}

double Round(double value, double unit) {
  return std::isfinite(value * unit) ? std::nearbyint(value * unit) / unit
                                     : value;
}

class MsprobeReport final : public ReportWriter {
 public:
  MsprobeReport(MsprobeMode mode, ReportSink sink)
      : mode_(mode), sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    comparison_ = comparison;
    return sink_(fmt::format("{}{}{}{}{}\n", kBasic, MetricColumns(mode_),
                             mode_ == MsprobeMode::kMd5 ? "" : kStats, kTail,
                             CustomHeadings(comparison)));
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    if (!row.has_target()) {
      ++left_out_;
      return absl::OkStatus();
    }
    // Rows of one entry are judged together.
    if (!entry_.empty() && (entry_.front().op() != row.op() ||
                            entry_.front().call() != row.call() ||
                            entry_.front().rank() != row.rank() ||
                            entry_.front().token() != row.token() ||
                            entry_.size() == kEntryRowsMax)) {
      MSITD_RETURN_IF_ERROR(WriteEntry());
    }
    entry_.push_back(row);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish() override {
    MSITD_RETURN_IF_ERROR(WriteEntry());
    if (left_out_ == 0) return "";
    return fmt::format(
        "{} rows that only the golden run has are left out, as msprobe does",
        left_out_);
  }

 private:
  static constexpr size_t kEntryRowsMax = 4096;

  absl::Status WriteEntry() {
    const std::vector<MsprobeVerdict> verdicts = JudgeEntry(entry_, mode_);
    for (size_t i = 0; i < entry_.size(); ++i) {
      MSITD_RETURN_IF_ERROR(WriteRow(entry_[i], verdicts[i]));
    }
    entry_.clear();
    return absl::OkStatus();
  }

  absl::Status WriteRow(const v1::ComparisonRow& row,
                        const MsprobeVerdict& verdict) {
    const bool matched = row.has_golden();
    const std::string name = NameOf(row);
    std::string line = fmt::format(
        "{},{},{},{},{},{},{},{}", CsvCell(name),
        matched ? CsvCell(name) : std::string(kAbsent),
        TorchDType(row.target()),
        matched ? TorchDType(row.golden()) : std::string(kAbsent),
        CsvCell(PythonShape(row.target())),
        matched ? CsvCell(PythonShape(row.golden())) : std::string(kAbsent),
        kAbsent, kAbsent);
    MSITD_ASSIGN_OR_RETURN(const std::string metrics, MetricCells(row));
    line += metrics;
    if (mode_ != MsprobeMode::kMd5) {
      line += Stats(row.target());
      line += matched ? Stats(row.golden()) : ",N/A,N/A,N/A,N/A";
    }
    line += fmt::format(",{},{},{}{}\n", kAbsent, verdict.result,
                        CsvCell(verdict.messages),
                        CustomCells(comparison_, row, Number));
    return sink_(line);
  }

  absl::StatusOr<std::string> MetricCells(const v1::ComparisonRow& row) const {
    switch (mode_) {
      case MsprobeMode::kAll:
        return TensorCells(row);
      case MsprobeMode::kSummary:
        return SummaryCells(row);
      case MsprobeMode::kMd5:
        break;
    }
    const auto hash = [](const v1::ComparedTensor& side) {
      return side.hash().empty() ? std::string(kAbsent) : side.hash();
    };
    return fmt::format(",{},{}", hash(row.target()), hash(row.golden()));
  }

  static std::string Repeated(std::string_view cell, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += fmt::format(",{}", cell);
    return out;
  }

  static absl::StatusOr<std::string> TensorCells(const v1::ComparisonRow& row) {
    constexpr int kColumns = 6;
    if (!row.has_golden()) return Repeated(kAbsent, kColumns);
    const uint64_t elements = ElementCount(row.target().shape());
    if (elements == 0) return Repeated("unsupported", kColumns);
    const auto max_abs = MetricOf(row, "max_abs");
    const bool positions_differ =
        MetricOf(row, "nan_mismatch_count").value_or(0) > 0 ||
        MetricOf(row, "inf_mismatch_count").value_or(0) > 0;
    if (positions_differ || row.verdict() == v1::SKIPPED) {
      return Repeated(kAbsent, kColumns);
    }
    if (row.metrics_size() == 0) return Repeated("shape unmatched", kColumns);
    const auto share = MetricOf(row, "within_1_permille");
    if (!share.has_value()) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "row {} has no msprobe metrics; compare with --metrics "
                        "msprobe or --preset msprobe",
                        row.row());
    }
    // Nothing but equal NaN and infinities: zeros there.
    const bool scalar = row.target().shape_size() == 0;
    const std::string absolute = Number(Round(max_abs.value_or(0), 1e12));
    const std::string relative =
        Number(Round(MetricOf(row, "msprobe_max_rel").value_or(0), 1e12));
    if (scalar) {
      return fmt::format(
          ",unsupported,unsupported,{},{},unsupported,"
          "unsupported",
          absolute, relative);
    }
    return fmt::format(",{},{},{},{},{},{}", CosineCell(row, elements),
                       Number(MetricOf(row, "l2_distance").value_or(0)),
                       absolute, relative, Number(*share),
                       Number(MetricOf(row, "within_5_permille").value_or(0)));
  }

  static std::string CosineCell(const v1::ComparisonRow& row,
                                int64_t elements) {
    constexpr double kNormMin = 2.220446049250313e-16;
    if (elements == 1) return "unsupported";
    const bool target_zero =
        HasStatistics(row.target()) && row.target().l2_norm() <= kNormMin;
    const bool golden_zero =
        HasStatistics(row.golden()) && row.golden().l2_norm() <= kNormMin;
    if (target_zero && golden_zero) return "1.0";
    if (target_zero || golden_zero) return "Nan";
    const double cosine = MetricOf(row, "cosine").value_or(1);
    return PythonFloat(Round(cosine, cosine > 0.9999 ? 1e6 : 1e12));
  }

  static std::string SummaryCells(const v1::ComparisonRow& row) {
    std::string diffs;
    std::string ratios;
    for (const auto& [target, golden] : StatisticsOf(row)) {
      const StatisticsDifference difference =
          DifferenceOf(target, golden, HasStatistics(row));
      diffs += ',' + difference.difference;
      ratios += ',' + difference.relative;
    }
    return diffs + ratios;
  }

  const MsprobeMode mode_;
  const ReportSink sink_;
  v1::Comparison comparison_;
  std::vector<v1::ComparisonRow> entry_;
  int64_t left_out_ = 0;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeMsprobeReport(MsprobeMode mode,
                                                ReportSink sink) {
  return std::make_unique<MsprobeReport>(mode, std::move(sink));
}

}  // namespace msitd::ctl
