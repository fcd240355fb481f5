// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/msprobe_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "protos/base/tensor_key.h"

namespace msitd::ctl {
namespace {

enum Level { kPass, kWarning, kError };

constexpr std::array<std::string_view, 3> kLevelNames = {"pass", "warning",
                                                         "error"};

bool IsOutput(const v1::ComparisonRow& row) {
  return row.io() == v1::IO_OUTPUT || row.io() == v1::IO_GRAD_INPUT;
}

bool IsNonFinite(const v1::ComparedTensor& side) {
  return side.nan_count() > 0 || side.infinity_count() > 0;
}

// Collects levels and texts of the rows of one entry.
class EntryJudge {
 public:
  EntryJudge(const std::vector<v1::ComparisonRow>& rows, MsprobeMode mode)
      : rows_(rows), mode_(mode), levels_(rows.size()), texts_(rows.size()) {}

  std::vector<MsprobeVerdict> Judge() {
    for (size_t i = 0; i < rows_.size(); ++i) JudgeRow(i);
    if (mode_ == MsprobeMode::kAll) JudgeRatios();
    if (mode_ == MsprobeMode::kSummary) JudgeNorms();
    std::vector<MsprobeVerdict> out;
    for (size_t i = 0; i < rows_.size(); ++i) {
      out.push_back({std::string(kLevelNames[levels_[i]]),
                     fmt::format("[{}]", fmt::join(texts_[i], ", "))});
    }
    return out;
  }

 private:
  void Note(size_t row, Level level, std::string_view text) {
    levels_[row] = std::max(levels_[row], level);
    texts_[row].push_back(fmt::format("\"{}\"", text));
  }

  void JudgeRow(size_t i) {
    const v1::ComparisonRow& row = rows_[i];
    if (!row.has_golden()) {
      Note(i, kWarning, "No bench data matched.");
      return;
    }
    if (mode_ == MsprobeMode::kMd5) {
      if (row.target().hash() != row.golden().hash()) {
        Note(i, kError, "The hashes differ.");
      }
      return;
    }
    if (IsNonFinite(row.target()) && !IsNonFinite(row.golden())) {
      Note(i, kError, "There is nan/inf/-inf in NPU data.");
    }
    if (row.target().dtype() != row.golden().dtype()) {
      Note(i, kError, "The dtypes differ.");
    }
    if (!std::equal(row.target().shape().begin(), row.target().shape().end(),
                    row.golden().shape().begin(), row.golden().shape().end())) {
      Note(i, kError, "The shapes differ.");
    }
  }

  // The least value of a metric over the inputs, or the outputs.
  std::optional<double> Least(std::string_view metric, bool outputs) const {
    std::optional<double> out;
    for (const v1::ComparisonRow& row : rows_) {
      if (IsOutput(row) != outputs) continue;
      const auto value = MetricOf(row, metric);
      if (value.has_value()) out = std::min(out.value_or(*value), *value);
    }
    return out;
  }

  std::optional<size_t> FirstOutput() const {
    const auto found = std::find_if(rows_.begin(), rows_.end(), IsOutput);
    if (found == rows_.end()) return std::nullopt;
    return static_cast<size_t>(found - rows_.begin());
  }

  void JudgeRatios() {
    const auto first = FirstOutput();
    if (!first.has_value()) return;
    const auto ratio_in = Least("within_1_permille", false);
    const auto ratio_out = Least("within_1_permille", true);
    if (ratio_in.value_or(0) > 0.9 && ratio_out.value_or(1) < 0.1) {
      Note(*first, kError,
           "The One Thousandth Err Ratio falls from above 0.9 to below 0.1.");
    }
    const auto cosine_in = Least("cosine", false);
    const auto cosine_out = Least("cosine", true);
    if (cosine_in.value_or(0) > 0.9 &&
        *cosine_in - cosine_out.value_or(*cosine_in) > 0.1) {
      Note(*first, kWarning, "The cosine falls by more than 0.1.");
    }
  }

  void JudgeNorms() {
    double input = 0;
    double output = 0;
    std::vector<double> norms(rows_.size());
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto [target, golden] = StatisticsOf(rows_[i])[3];
      norms[i] = DifferenceOf(target, golden, HasStatistics(rows_[i]))
                     .percent.value_or(0);
      double& most = IsOutput(rows_[i]) ? output : input;
      most = std::max(most, norms[i]);
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (IsOutput(rows_[i]) && input < 10 && norms[i] > 50) {
        Note(i, kError,
             "The NormRelativeErr is above 50 %, that of the inputs below 10 "
             "%.");
      }
    }
    const auto first = FirstOutput();
    const bool grows = input > 0 ? output / input > 10 : output > 10;
    if (first.has_value() && grows) {
      Note(*first, kWarning,
           "The NormRelativeErr grows more than tenfold from inputs to "
           "outputs.");
    }
  }

  const std::vector<v1::ComparisonRow>& rows_;
  const MsprobeMode mode_;
  std::vector<Level> levels_;
  std::vector<std::vector<std::string>> texts_;
};

}  // namespace

std::vector<MsprobeVerdict> JudgeEntry(
    const std::vector<v1::ComparisonRow>& rows, MsprobeMode mode) {
  return EntryJudge(rows, mode).Judge();
}

bool HasStatistics(const v1::ComparedTensor& side) {
  return side.has_nan_count();
}

bool HasStatistics(const v1::ComparisonRow& row) {
  return HasStatistics(row.golden()) && HasStatistics(row.target());
}

std::array<Statistic, 4> StatisticsOf(const v1::ComparisonRow& row) {
  const auto of = [](const v1::ComparedTensor& side, bool has, double value) {
    if (side.nan_count() > 0) return std::optional(std::nan(""));
    return has ? std::optional(value) : std::nullopt;
  };
  const auto norm = [](const v1::ComparedTensor& side) {
    return side.infinity_count() > 0 ? HUGE_VAL : side.l2_norm();
  };
  const v1::ComparedTensor& t = row.target();
  const v1::ComparedTensor& g = row.golden();
  return {
      Statistic{of(t, t.has_max(), t.max()), of(g, g.has_max(), g.max())},
      Statistic{of(t, t.has_min(), t.min()), of(g, g.has_min(), g.min())},
      Statistic{of(t, t.has_mean(), t.mean()), of(g, g.has_mean(), g.mean())},
      Statistic{of(t, t.has_l2_norm(), norm(t)),
                of(g, g.has_l2_norm(), norm(g))}};
}

StatisticsDifference DifferenceOf(std::optional<double> target,
                                  std::optional<double> golden,
                                  bool are_known) {
  if (!are_known) return {"N/A", "N/A", {}};
  const bool both_nan = target.has_value() && golden.has_value() &&
                        std::isnan(*target) && std::isnan(*golden);
  // Equal texts are equal there, NaN included.
  if (target == golden || both_nan) return {"0", "0", {}};
  if (!target.has_value() || !golden.has_value()) return {"N/A", "N/A", {}};
  if (std::isnan(*target) || std::isnan(*golden)) return {"Nan", "Nan", {}};
  if (std::isinf(*target) || std::isinf(*golden)) {
    const bool positive =
        std::isinf(*target) ? *target > 0 : std::signbit(*golden);
    const std::string text = positive ? "inf" : "-inf";
    return {text, text, {}};
  }
  const double difference = *target - *golden;
  if (*golden == 0) return {PythonFloat(difference), "inf", {}};
  const double percent = std::fabs(difference / *golden) * 100;
  return {PythonFloat(difference), PythonFloat(percent) + "%", percent};
}

}  // namespace msitd::ctl
