// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_colors.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace msitd::report {
namespace {

using Kind = MsprobeStatistic::Kind;

// The smallest divisor: a smaller golden maximum is replaced by it.
constexpr double kLeastMaximum = 0.01;

// Keeps the quotient of two zeros finite.
constexpr double kTiny = 1e-10;

// The positions of maximum and minimum in the statistics.
constexpr size_t kMax = 0;
constexpr size_t kMin = 1;

bool IsNonFinite(const MsprobeStatistic& statistic) {
  return statistic.kind == Kind::kNan || statistic.kind == Kind::kInfinity;
}

// Returns the difference of the maxima, or the largest difference of elements.
std::optional<double> DifferenceOf(const MsprobeRow& row, MsprobeMode mode) {
  if (mode == MsprobeMode::kAll) return row.max_abs;
  const MsprobeStatistic& target = row.target[kMax];
  const MsprobeStatistic& golden = row.golden[kMax];
  if (target.kind != Kind::kNumber || golden.kind != Kind::kNumber) {
    return std::nullopt;
  }
  return target.number - golden.number;
}

std::optional<double> RelativeOf(const MsprobeRow& row) {
  const auto difference = DifferenceOf(row, MsprobeMode::kSummary);
  if (!difference.has_value()) return std::nullopt;
  return std::fabs(*difference /
                   std::max(kLeastMaximum, row.golden[kMax].number));
}

// Collects the colors of one entry.
class EntryPainter {
 public:
  EntryPainter(std::span<const MsprobeRow> rows, MsprobeMode mode,
               const MsprobeRules& rules)
      : rows_(rows),
        mode_(mode),
        rules_(rules),
        red_(rows.size()),
        yellow_(rows.size()) {}

  std::vector<MsprobeColor> Paint() {
    for (size_t i = 0; i < rows_.size(); ++i) PaintAlone(i);
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!IsMsprobeOutput(rows_[i])) continue;
      if (mode_ == MsprobeMode::kSummary) PaintRelative(i);
      for (const MsprobeRow& input : rows_) {
        if (!IsMsprobeOutput(input)) PaintBeside(input, i);
      }
    }
    std::vector<MsprobeColor> out;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!red_[i].empty()) {
        out.push_back({ask::RowColor::kRed, std::move(red_[i])});
      } else if (!yellow_[i].empty()) {
        out.push_back({ask::RowColor::kYellow, std::move(yellow_[i])});
      } else {
        out.push_back({});
      }
    }
    return out;
  }

 private:
  static void Add(std::vector<std::string>& reasons, std::string_view reason) {
    // An output is compared with every input.
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.emplace_back(reason);
    }
  }

  void PaintAlone(size_t i) {
    const MsprobeRow& row = rows_[i];
    if (IsNonFinite(row.target[kMax]) || IsNonFinite(row.target[kMin])) {
      Add(red_[i], "The maximum or minimum is nan or infinite.");
      return;
    }
    const auto difference = DifferenceOf(row, mode_);
    if (difference.has_value() &&
        std::fabs(*difference) > rules_.red.difference_above) {
      Add(red_[i], "The difference is very large.");
    }
  }

  void PaintRelative(size_t i) {
    const auto relative = RelativeOf(rows_[i]);
    if (relative.has_value() && *relative > rules_.red.relative_output_above) {
      Add(red_[i], "The maximum is far off.");
    }
  }

  void PaintBeside(const MsprobeRow& input, size_t i) {
    const MsprobeRow& output = rows_[i];
    PaintGrowth(input, i);
    if (mode_ == MsprobeMode::kSummary) {
      const auto before = RelativeOf(input);
      const auto after = RelativeOf(output);
      if (before.has_value() && after.has_value() &&
          *after > rules_.yellow.relative_output_above &&
          *before < rules_.yellow.relative_input_below) {
        Add(yellow_[i], "The maximum is off, that of an input is not.");
      }
      return;
    }
    if (input.within_1_permille.has_value() &&
        output.within_1_permille.has_value()) {
      const double before = *input.within_1_permille;
      const double after = *output.within_1_permille;
      if (before > rules_.red.ratio_input_above &&
          after < rules_.red.ratio_output_below) {
        Add(red_[i],
            "The One Thousandth Err Ratio is low, that of an input is "
            "high.");
      } else if (before - after > rules_.yellow.ratio_fall_above) {
        Add(yellow_[i], "The One Thousandth Err Ratio falls.");
      }
    }
    if (input.cosine.has_value() && output.cosine.has_value() &&
        *input.cosine - *output.cosine > rules_.yellow.cosine_fall_above) {
      Add(yellow_[i], "The cosine falls.");
    }
  }

  void PaintGrowth(const MsprobeRow& input, size_t i) {
    const auto before = DifferenceOf(input, mode_);
    const auto after = DifferenceOf(rows_[i], mode_);
    if (!before.has_value() || !after.has_value()) return;
    const double from = std::fabs(*before);
    const double to = std::fabs(*after);
    if (from > 1 && to >= from &&
        std::log10(to) - std::log10(from) >= rules_.yellow.growth_from) {
      Add(yellow_[i], "The difference grows by an order of magnitude.");
    }
  }

  const std::span<const MsprobeRow> rows_;
  const MsprobeMode mode_;
  const MsprobeRules& rules_;
  std::vector<std::vector<std::string>> red_;
  std::vector<std::vector<std::string>> yellow_;
};

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

}  // namespace

std::vector<MsprobeColor> ColorEntry(std::span<const MsprobeRow> rows,
                                     MsprobeMode mode,
                                     const MsprobeRules& rules) {
  if (mode == MsprobeMode::kMd5) return std::vector<MsprobeColor>(rows.size());
  return EntryPainter(rows, mode, rules).Paint();
}

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

}  // namespace msitd::report
