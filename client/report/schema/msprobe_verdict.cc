// SPDX-License-Identifier: Apache-2.0
#include "client/report/schema/msprobe_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

namespace msitd::ctl {
namespace {

enum Level { kPass, kWarning, kError };

constexpr std::array<std::string_view, 3> kLevelNames = {"pass", "warning",
                                                         "error"};

// Ops of which nothing is judged, and those of which the inputs are not.
constexpr std::string_view kIgnored[] = {"empty",
                                         "empty_like",
                                         "numpy",
                                         "to",
                                         "__setitem__",
                                         "empty_with_format",
                                         "new_empty_strided",
                                         "new_empty",
                                         "empty_strided"};
constexpr std::string_view kInputsIgnored[] = {
    "_reduce_scatter_base", "_all_gather_base", "all_to_all_single",
    "batch_isend_irecv"};

template <typename List>
bool Contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// `linear` of `Functional.linear.0.forward.input.0`.
std::string_view SecondPart(std::string_view name) {
  const size_t first = name.find('.');
  if (first == std::string_view::npos) return {};
  name.remove_prefix(first + 1);
  return name.substr(0, name.find('.'));
}

bool IsOutput(const MsprobeRow& row) {
  return row.name.find(".output.") != std::string::npos;
}

bool HasNonFiniteExtreme(const MsprobeStatistics& side) {
  return std::any_of(side.begin(), side.begin() + 2,
                     [](const MsprobeStatistic& s) {
                       return s.kind == MsprobeStatistic::Kind::kNan ||
                              s.kind == MsprobeStatistic::Kind::kInfinity;
                     });
}

// Collects levels and texts of the rows of one entry.
class EntryJudge {
 public:
  EntryJudge(std::span<const MsprobeRow> rows, MsprobeMode mode)
      : rows_(rows), mode_(mode), levels_(rows.size()), texts_(rows.size()) {
    const auto first_input =
        std::find_if_not(rows.begin(), rows.end(), IsOutput);
    if (first_input == rows.end()) return;
    const std::string_view op = SecondPart(first_input->name);
    ignores_all_ = Contains(kIgnored, op);
    ignores_inputs_ = Contains(kInputsIgnored, op);
  }

  std::vector<MsprobeVerdict> Judge() {
    // In the order of its messages.
    if (mode_ == MsprobeMode::kMd5) {
      ForEachJudged([this](size_t i) { JudgeHash(i); });
    } else {
      ForEachJudged([this](size_t i) { JudgeExtremes(i); });
      const bool looks_at_inputs = !ignores_all_ && !ignores_inputs_;
      if (looks_at_inputs && mode_ == MsprobeMode::kAll) JudgeRatios();
      if (looks_at_inputs && mode_ == MsprobeMode::kSummary) JudgeJumps();
      ForEachJudged([this](size_t i) { JudgeTypes(i); });
      if (looks_at_inputs && mode_ == MsprobeMode::kAll) JudgeCosines();
      if (looks_at_inputs && mode_ == MsprobeMode::kSummary) JudgeGrowth();
    }
    ForEachJudged([this](size_t i) {
      if (levels_[i] == kPass && !rows_[i].doubt.empty()) {
        Note(i, kWarning, rows_[i].doubt);
      }
    });
    std::vector<MsprobeVerdict> out;
    for (size_t i = 0; i < rows_.size(); ++i) {
      out.push_back({std::string(kLevelNames[levels_[i]]),
                     fmt::format("[{}]", fmt::join(texts_[i], ", "))});
    }
    return out;
  }

 private:
  template <typename F>
  void ForEachJudged(F judge) {
    if (ignores_all_) return;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!ignores_inputs_ || IsOutput(rows_[i])) judge(i);
    }
  }

  void Note(size_t row, Level level, std::string_view text) {
    levels_[row] = std::max(levels_[row], level);
    texts_[row].push_back(nlohmann::json(text).dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  void JudgeHash(size_t i) {
    const MsprobeRow& row = rows_[i];
    if (row.target_hash.empty() && row.golden_hash.empty()) {
      Note(i, kWarning, "Neither side has a hash.");
    } else if (row.target_hash.empty() || row.golden_hash.empty()) {
      Note(i, kWarning, "No bench data matched.");
    } else if (row.has_two_kinds_of_hash) {
      Note(i, kWarning, "The hashes are of two kinds.");
    } else if (row.target_hash != row.golden_hash) {
      Note(i, kError, "The hashes differ.");
    }
  }

  void JudgeExtremes(size_t i) {
    if (HasNonFiniteExtreme(rows_[i].target) &&
        !HasNonFiniteExtreme(rows_[i].golden)) {
      Note(i, kError, "There is nan/inf/-inf in NPU data.");
    }
  }

  void JudgeTypes(size_t i) {
    if (!rows_[i].is_matched) return;
    if (rows_[i].dtypes_differ) Note(i, kError, "The dtypes differ.");
    if (rows_[i].shapes_differ) Note(i, kError, "The shapes differ.");
  }

  // The least value of a metric over the inputs, or the outputs, and no more
  // than 1.
  double Least(std::optional<double> MsprobeRow::*metric, bool outputs) const {
    double out = 1;
    for (const MsprobeRow& row : rows_) {
      if (IsOutput(row) == outputs) {
        out = std::min(out, (row.*metric).value_or(1));
      }
    }
    return out;
  }

  // The largest relative difference of norms that is a percentage.
  double LargestNorm(bool outputs) const {
    double out = 0;
    for (const MsprobeRow& row : rows_) {
      if (IsOutput(row) == outputs) {
        out = std::max(out, FractionOf(row.norm_relative).value_or(0));
      }
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
    if (first.has_value() &&
        Least(&MsprobeRow::within_1_permille, false) > 0.9 &&
        Least(&MsprobeRow::within_1_permille, true) < 0.1) {
      Note(*first, kError,
           "The One Thousandth Err Ratio falls from above 0.9 to below 0.1.");
    }
  }

  void JudgeCosines() {
    const auto first = FirstOutput();
    const double input = Least(&MsprobeRow::cosine, false);
    if (first.has_value() && input > 0.9 &&
        input - Least(&MsprobeRow::cosine, true) > 0.1) {
      Note(*first, kWarning, "The cosine falls by more than 0.1.");
    }
  }

  void JudgeJumps() {
    if (!(LargestNorm(false) < 0.1)) return;
    for (size_t i = 0; i < rows_.size(); ++i) {
      // An `inf` counts here, and only here.
      const double norm =
          std::strtod(rows_[i].norm_relative.c_str(), nullptr) / 100;
      if (IsOutput(rows_[i]) && std::fabs(norm) > 0.5) {
        Note(i, kError,
             "The NormRelativeErr is above 50 %, that of the inputs below 10 "
             "%.");
      }
    }
  }

  void JudgeGrowth() {
    const auto first = FirstOutput();
    const double input = LargestNorm(false);
    const double output = LargestNorm(true);
    const bool grows = input == 0 ? output > 0.1 : output / input > 10;
    if (first.has_value() && grows) {
      Note(*first, kWarning,
           "The NormRelativeErr grows more than tenfold from inputs to "
           "outputs.");
    }
  }

  const std::span<const MsprobeRow> rows_;
  const MsprobeMode mode_;
  bool ignores_all_ = false;
  bool ignores_inputs_ = false;
  std::vector<Level> levels_;
  std::vector<std::vector<std::string>> texts_;
};

}  // namespace

std::vector<MsprobeVerdict> JudgeEntry(std::span<const MsprobeRow> rows,
                                       MsprobeMode mode) {
  return EntryJudge(rows, mode).Judge();
}

}  // namespace msitd::ctl
