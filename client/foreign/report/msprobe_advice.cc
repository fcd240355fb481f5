// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/ask/text/maker_text.h"
#include "client/foreign/report/foreign_schemas.h"
#include "protos/status/status.h"

namespace msitd::report {
namespace {

using Kind = MsprobeStatistic::Kind;

// Keeps the quotient of two zeros finite.
constexpr double kTiny = 1e-10;

bool IsNonFinite(const MsprobeStatistic& statistic) {
  return statistic.kind == Kind::kNan || statistic.kind == Kind::kInfinity;
}

bool AreStatisticsOff(const MsprobeRow& row, const MsprobeRules& rules) {
  for (size_t i = 0; i < row.target.size(); ++i) {
    const MsprobeStatistic& target = row.target[i];
    const MsprobeStatistic& golden = row.golden[i];
    if (IsNonFinite(target) || IsNonFinite(golden)) {
      if (target.kind != golden.kind || target.number != golden.number) {
        return true;
      }
      continue;
    }
    if (target.kind != Kind::kNumber || golden.kind != Kind::kNumber) continue;
    const double size =
        std::max(std::fabs(target.number), std::fabs(golden.number)) + kTiny;
    if (std::fabs(target.number - golden.number) / size >
        rules.accuracy.statistics_above) {
      return true;
    }
  }
  return false;
}

bool AreMetricsOff(const MsprobeRow& row, const MsprobeRules& rules) {
  const MsprobeRules::Accuracy& accuracy = rules.accuracy;
  const double cosine = row.cosine.value_or(1);
  const double max_abs = row.max_abs.value_or(0);
  return row.shapes_differ || cosine < accuracy.cosine_always_below ||
         max_abs > accuracy.max_abs_always_above ||
         (cosine < accuracy.cosine_below && max_abs > accuracy.max_abs_above);
}

// Discards the rows, which only on_row needs.
class NoTable final : public ask::TableSink {
 public:
  absl::Status Begin(const std::vector<std::string>& /*headings*/) override {
    return absl::OkStatus();
  }
  absl::Status Add(const ask::Cells& /*cells*/) override {
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
};

class AdviceReport final : public ask::ReportWriter {
 public:
  AdviceReport(MsprobeReport report, ask::ReportSink sink)
      : rules_(report.rules), mode_(report.mode), sink_(std::move(sink)) {
    report.on_row = [this](const MsprobeRow& row) { Look(row); };
    schema_ = MakeMsprobeSchema(std::move(report));
  }

  absl::Status Begin(const v1::Comparison& comparison) override {
    schema_->Begin(comparison);
    has_order_ = ask::HasOrder(comparison);
    return absl::OkStatus();
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    return schema_->Add(row, table_);
  }

  absl::StatusOr<std::string> Finish() override {
    MSITD_ASSIGN_OR_RETURN(std::string note, schema_->Finish(table_));
    MSITD_RETURN_IF_ERROR(sink_(Text()));
    return note;
  }

 private:
  void Look(const MsprobeRow& row) {
    if (leaf_.empty() && !row.is_ignored && IsInaccurate(row, mode_, rules_)) {
      leaf_ = row.name;
      line_ = row_count_;
    }
    ++row_count_;
  }

  std::string Text() const {
    if (leaf_.empty()) {
      return "Line: NA\nSuspect Nodes: NA\nExpert Advice: No row of the "
             "report fails.\n";
    }
    if (!has_order_) {
      return "Line: NA\n"
             "Suspect Nodes: NA\n"
             "Expert Advice: Rows fail, but a run does not record in which "
             "order its tensors were computed, so it is unknown which row "
             "failed first.\n";
    }
    return fmt::format("Line: {}\nSuspect Nodes: {}\nExpert Advice: {}\n",
                       line_, leaf_, AdviceFor(leaf_, rules_));
  }

  const MsprobeRules rules_;
  const MsprobeMode mode_;
  const ask::ReportSink sink_;
  NoTable table_;
  std::unique_ptr<ask::TableSchema> schema_;
  size_t row_count_ = 0;
  std::string leaf_;  // The first row that fails.
  size_t line_ = 0;
  bool has_order_ = true;
};

}  // namespace

bool IsInaccurate(const MsprobeRow& row, MsprobeMode mode,
                  const MsprobeRules& rules) {
  if (!row.is_matched) return false;
  switch (mode) {
    case MsprobeMode::kAll:
      return AreMetricsOff(row, rules);
    case MsprobeMode::kSummary:
      return AreStatisticsOff(row, rules);
    case MsprobeMode::kMd5:
      break;
  }
  return row.target_hash != row.golden_hash;
}

std::string AdviceFor(const std::string& leaf, const MsprobeRules& rules) {
  const auto has = [&leaf](std::string_view word) {
    return leaf.find(word) != std::string::npos;
  };
  const bool is_forward = has(".forward.");
  if (is_forward && has("batch_norm") && has(".input.1")) {
    return "The running statistics of batch_norm differ before the call. Put "
           "the module into eval mode, or make runs deterministic, and record "
           "both again.";
  }
  if (!IsMsprobeOutputName(leaf)) {
    return is_forward
               ? "The input of the call already differs. Check its origin: the "
                 "data, random numbers, weights, or an in-place op that "
                 "overwrote it."
               : "The incoming gradient already differs. Check the forward "
                 "calls that it results from, and the scale of the loss.";
  }
  const auto& varying = rules.accuracy.not_deterministic;
  if (std::any_of(varying.begin(), varying.end(), has)) {
    return "The results of this op may vary from call to call. Make the runs "
           "deterministic (seed_all with mode=True), and record both again. If "
           "the difference remains, suspect the op.";
  }
  return is_forward
             ? "Suspect the forward computation of this op: its inputs do not "
               "differ. Test the op separately and in higher precision."
             : "Suspect the backward computation of this op: the incoming "
               "gradient does not differ. Test the op separately and in higher "
               "precision.";
}

std::unique_ptr<ask::ReportWriter> MakeAdviceReport(MsprobeReport report,
                                                    ask::ReportSink sink) {
  return std::make_unique<AdviceReport>(std::move(report), std::move(sink));
}

}  // namespace msitd::report
