// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

namespace msitd::report {
namespace {

enum Level { kPass, kWarning, kError };

constexpr std::array<std::string_view, 3> kLevelNames = {"pass", "warning",
                                                         "error"};

template <typename List>
bool Contains(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// Returns `linear` for `Functional.linear.0.forward.input.0`.
std::string_view SecondPart(std::string_view name) {
  const size_t first = name.find('.');
  if (first == std::string_view::npos) return {};
  name.remove_prefix(first + 1);
  return name.substr(0, name.find('.'));
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
  EntryJudge(std::span<const MsprobeRow> rows, MsprobeMode mode,
             const MsprobeRules::Result& rules)
      : rows_(rows),
        mode_(mode),
        rules_(rules),
        levels_(rows.size()),
        texts_(rows.size()) {
    const auto first_input =
        std::find_if_not(rows.begin(), rows.end(), IsMsprobeOutput);
    if (first_input == rows.end()) return;
    const std::string_view op = SecondPart(first_input->name);
    ignores_all_ = Contains(rules.ignored, op);
    ignores_inputs_ = Contains(rules.inputs_ignored, op);
  }

  std::vector<MsprobeVerdict> Judge() {
    // In the order of msprobe's messages.
    if (mode_ == MsprobeMode::kMd5) {
      ForEachJudged([this](size_t i) { JudgeHash(i); });
    } else {
      ForEachJudged([this](size_t i) { JudgeExtremes(i); });
      const bool looks_at_inputs = !ignores_all_ && !ignores_inputs_;
      if (looks_at_inputs && mode_ == MsprobeMode::kAll) JudgeRatios();
      if (looks_at_inputs && mode_ == MsprobeMode::kSummary) JudgeJumps();
      ForEachJudged([this](size_t i) { JudgeGradient(i); });
      if (looks_at_inputs) ForEachJudged([this](size_t i) { JudgeScalar(i); });
      ForEachJudged([this](size_t i) { JudgeTypes(i); });
      if (looks_at_inputs && mode_ == MsprobeMode::kAll) JudgeCosines();
      if (looks_at_inputs && mode_ == MsprobeMode::kSummary) JudgeGrowth();
    }
    NoteDoubts();
    std::vector<MsprobeVerdict> out;
    for (size_t i = 0; i < rows_.size(); ++i) {
      out.push_back({rows_[i].is_ignored ? "ignored"
                                         : std::string(kLevelNames[levels_[i]]),
                     fmt::format("[{}]", fmt::join(texts_[i], ", "))});
    }
    return out;
  }

 private:
  template <typename F>
  void ForEachJudged(F judge) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (IsJudged(i)) judge(i);
    }
  }

  bool IsJudged(size_t i) const {
    return !ignores_all_ && !rows_[i].is_ignored &&
           (!ignores_inputs_ || IsMsprobeOutput(rows_[i]));
  }

  void NoteDoubts() {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const MsprobeRow& row = rows_[i];
      if (row.is_ignored || row.doubt.empty() || levels_[i] != kPass) continue;
      if (row.rules_settle_doubt && IsJudged(i)) continue;
      Note(i, kWarning, row.doubt);
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

  void JudgeGradient(size_t i) {
    if (rows_[i].requires_grads_differ) {
      Note(i, kError, "The values of requires_grad differ.");
    }
  }

  void JudgeScalar(size_t i) {
    if (rows_[i].scalars_differ && !IsMsprobeOutput(rows_[i])) {
      Note(i, kError, "The scalars differ.");
    }
  }

  void JudgeTypes(size_t i) {
    if (!rows_[i].is_matched) return;
    if (rows_[i].dtypes_differ) Note(i, kError, "The dtypes differ.");
    if (rows_[i].shapes_differ) Note(i, kError, "The shapes differ.");
  }

  // Returns the smallest value of a metric over the inputs or the outputs,
  // limited to 1.
  double Least(std::optional<double> MsprobeRow::*metric, bool outputs) const {
    double out = 1;
    for (const MsprobeRow& row : rows_) {
      if (IsMsprobeOutput(row) == outputs) {
        out = std::min(out, (row.*metric).value_or(1));
      }
    }
    return out;
  }

  // Returns the largest relative difference of norms that is a percentage.
  double LargestNorm(bool outputs) const {
    double out = 0;
    for (const MsprobeRow& row : rows_) {
      if (IsMsprobeOutput(row) == outputs) {
        out = std::max(out, FractionOf(row.norm_relative).value_or(0));
      }
    }
    return out;
  }

  std::optional<size_t> FirstOutput() const {
    const auto found =
        std::find_if(rows_.begin(), rows_.end(), IsMsprobeOutput);
    if (found == rows_.end()) return std::nullopt;
    return static_cast<size_t>(found - rows_.begin());
  }

  void JudgeRatios() {
    const auto first = FirstOutput();
    if (first.has_value() &&
        Least(&MsprobeRow::within_1_permille, false) >
            rules_.ratio_input_above &&
        Least(&MsprobeRow::within_1_permille, true) <
            rules_.ratio_output_below) {
      Note(*first, kError,
           fmt::format(
               "The One Thousandth Err Ratio falls from above {} to below {}.",
               rules_.ratio_input_above, rules_.ratio_output_below));
    }
  }

  void JudgeCosines() {
    const auto first = FirstOutput();
    const double input = Least(&MsprobeRow::cosine, false);
    if (first.has_value() && input > rules_.cosine_input_above &&
        input - Least(&MsprobeRow::cosine, true) > rules_.cosine_fall_above) {
      Note(*first, kWarning,
           fmt::format("The cosine falls by more than {}.",
                       rules_.cosine_fall_above));
    }
  }

  void JudgeJumps() {
    if (!(LargestNorm(false) < rules_.jump_input_below)) return;
    for (size_t i = 0; i < rows_.size(); ++i) {
      // Infinities are included only here.
      const double norm =
          std::strtod(rows_[i].norm_relative.c_str(), nullptr) / 100;
      if (IsMsprobeOutput(rows_[i]) &&
          std::fabs(norm) > rules_.jump_output_above) {
        Note(i, kError,
             fmt::format("The NormRelativeErr is above {:g} %, that of the "
                         "inputs below {:g} %.",
                         rules_.jump_output_above * 100,
                         rules_.jump_input_below * 100));
      }
    }
  }

  void JudgeGrowth() {
    const auto first = FirstOutput();
    const double input = LargestNorm(false);
    const double output = LargestNorm(true);
    const bool grows = input == 0 ? output > rules_.growth_output_above
                                  : output / input > rules_.growth_factor_above;
    if (first.has_value() && grows) {
      Note(*first, kWarning,
           fmt::format("The NormRelativeErr grows more than {:g}-fold from "
                       "inputs to outputs.",
                       rules_.growth_factor_above));
    }
  }

  const std::span<const MsprobeRow> rows_;
  const MsprobeMode mode_;
  const MsprobeRules::Result& rules_;
  bool ignores_all_ = false;
  bool ignores_inputs_ = false;
  std::vector<Level> levels_;
  std::vector<std::vector<std::string>> texts_;
};

}  // namespace

bool IsMsprobeOutputName(std::string_view leaf) {
  return leaf.find(".output.") != std::string_view::npos;
}

bool IsMsprobeOutput(const MsprobeRow& row) {
  return IsMsprobeOutputName(row.name);
}

std::vector<MsprobeVerdict> JudgeEntry(std::span<const MsprobeRow> rows,
                                       MsprobeMode mode,
                                       const MsprobeRules& rules) {
  return EntryJudge(rows, mode, rules.result).Judge();
}

}  // namespace msitd::report
