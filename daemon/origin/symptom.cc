// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/symptom.h"

#include <cmath>

#include "daemon/origin/op_kinds.h"
#include "protos/base/tensor_statistics.h"
#include "protos/status/status.h"

namespace msitd::origin {
namespace {

using storage::TensorInfo;

constexpr std::array<std::string_view, kIgnoreRuleCount> kRuleTexts = {
    "-inf only, in an input such as an attention mask",
    "-inf only, from an op that writes masks",
    "-inf only, from an op that received -inf",
    "-inf only, the logarithm of a zero",
    "-inf only, from a module with code of its own",
    "memory that was not written",
    "rows of the batch that belong to no request",
    "an input without effect on the results of its call",
};

// The statistics of a tensor.
struct Stated {
  std::optional<double> count;
  std::optional<double> nan_count;
  std::optional<double> positive_infinity_count;
  std::optional<double> negative_infinity_count;
  std::optional<double> l2_norm;
  std::optional<double> mean;
  bool has_nan = false;
  bool has_infinity = false;
};

void Add(const TensorStatistic& statistic, Summary& summary, Stated& stated) {
  if (IsChecksum(statistic.name)) return;
  const std::optional<double> number = NumberOf(statistic);
  stated.has_nan = stated.has_nan ||
                   (statistic.is_string && statistic.text == "nan") ||
                   (number.has_value() && std::isnan(*number));
  stated.has_infinity = stated.has_infinity ||
                        (statistic.is_string &&
                         (statistic.text == "inf" || statistic.text == "-inf"));
  if (statistic.name == "count") stated.count = number;
  if (statistic.name == "nan_count") stated.nan_count = number;
  if (statistic.name == "pos_inf_count") {
    stated.positive_infinity_count = number;
  }
  if (statistic.name == "neg_inf_count") {
    stated.negative_infinity_count = number;
  }
  if (statistic.name == "l2_norm") stated.l2_norm = number;
  if (statistic.name == "mean") stated.mean = number;
  if (statistic.name == "min" && number.has_value()) summary.min = *number;
  if (statistic.name == "max" && number.has_value()) summary.max = *number;
}

bool IsFinite(const std::optional<double>& number) {
  return number.has_value() && std::isfinite(*number);
}

uint64_t CountOf(const std::optional<double>& number) {
  // Counts are foreign: any number may be there.
  return number.has_value() && *number > 0 && *number < 1e18
             ? static_cast<uint64_t>(*number)
             : 0;
}

bool HasOnlyMinusInfinity(const Summary& summary) {
  return summary.nan_count == 0 && summary.positive_infinity_count == 0 &&
         summary.negative_infinity_count > 0;
}

}  // namespace

std::string_view TextOf(IgnoreRule rule) {
  return kRuleTexts[static_cast<size_t>(rule)];
}

std::optional<Summary> SummaryOf(const TensorInfo& tensor, bool is_not_finite) {
  if (tensor.kind != RecordKind::kStatistics) return tensor.summary;
  const auto statistics = ParseTensorStatistics(tensor.value);
  if (!statistics.has_value()) return std::nullopt;
  Summary summary;
  Stated stated;
  for (const TensorStatistic& statistic : *statistics) {
    Add(statistic, summary, stated);
  }
  summary.count = CountOf(stated.count);
  summary.nan_count = CountOf(stated.nan_count);
  summary.positive_infinity_count = CountOf(stated.positive_infinity_count);
  summary.negative_infinity_count = CountOf(stated.negative_infinity_count);
  if (stated.count.has_value() && stated.nan_count.has_value() &&
      stated.positive_infinity_count.has_value() &&
      stated.negative_infinity_count.has_value()) {
    if (IsFinite(stated.mean)) {
      summary.sum = *stated.mean * static_cast<double>(summary.finite_count());
    }
    if (IsFinite(stated.l2_norm)) {
      summary.sum_squares = *stated.l2_norm * *stated.l2_norm;
    }
    return summary;
  }
  if (!is_not_finite) return std::nullopt;
  // Without counts, only non-finite statistics and a finite norm prove
  // anything: the norm of a tensor with a NaN is NaN.
  if (stated.has_nan)
    summary.nan_count = std::max<uint64_t>(summary.nan_count, 1);
  if (stated.has_infinity) {
    summary.positive_infinity_count =
        std::max<uint64_t>(summary.positive_infinity_count, 1);
  }
  if (!stated.has_nan && !stated.has_infinity && !IsFinite(stated.l2_norm)) {
    return std::nullopt;
  }
  summary.count = std::max<uint64_t>(
      summary.count, summary.nan_count + summary.positive_infinity_count + 1);
  return summary;
}

void CallResults::Add(const TensorInfo& tensor, State state) {
  if (tensor.key.io != Io::kOutput) return;
  has_clean_ =
      has_clean_ || (state == State::kClean && IsFloatingPoint(tensor.dtype));
  has_other_ =
      has_other_ || state == State::kSymptom || state == State::kUnknown;
}

void SymptomJudge::StartCall(const TensorInfo& tensor) {
  const TensorKey& key = tensor.key;
  if (key.call == call_ && key.op == op_ && key.token == token_ &&
      key.rank == rank_) {
    return;
  }
  rank_ = key.rank;
  token_ = key.token;
  call_ = key.call;
  op_ = key.op;
  received_minus_infinity_ = false;
  received_zero_ = false;
  received_padding_ = false;
}

absl::StatusOr<Verdict> SymptomJudge::Judge(const TensorInfo& tensor,
                                            bool knows_padding,
                                            storage::StopCheck stop) {
  StartCall(tensor);
  bool holds = false;
  std::optional<Summary> summary = tensor.summary;
  if (tensor.kind == RecordKind::kStatistics) {
    summary = SummaryOf(tensor, condition_.is_not_finite);
    if (!summary.has_value()) return Verdict{State::kUnknown};
    TensorInfo stated = tensor;
    stated.summary = *summary;
    holds = condition_.holds(stated);
  } else {
    holds = condition_.holds(tensor);
  }
  if (tensor.key.io == Io::kInput) {
    received_minus_infinity_ =
        received_minus_infinity_ || summary->negative_infinity_count > 0;
    received_zero_ = received_zero_ || summary->zero_count > 0;
  }
  if (!holds) return Verdict{State::kClean};
  if (!condition_.is_not_finite || condition_.is_strict) {
    return Verdict{State::kSymptom};
  }
  MSITD_ASSIGN_OR_RETURN(const std::optional<IgnoreRule> rule,
                         RuleFor(tensor, *summary, knows_padding, stop));
  if (rule == IgnoreRule::kPadding) return JudgePadding(tensor);
  if (rule == IgnoreRule::kMaskModule) {
    MSITD_ASSIGN_OR_RETURN(const ModuleTree* const tree,
                           trees_.Of(tensor.key.rank, stop));
    const ModuleFacts* const facts = tree->Find(tensor.key.op);
    if (facts == nullptr || facts->module_class.empty()) {
      return Verdict{State::kUnknown};
    }
  }
  if (rule.has_value()) return Verdict{State::kIgnored, *rule};
  return Verdict{State::kSymptom};
}

// As many bad elements as unused rows have may also be bad columns. A call that
// received bad rows can return them again; a call that did not may have made
// them in any row.
Verdict SymptomJudge::JudgePadding(const TensorInfo& tensor) {
  if (tensor.key.io == Io::kInput) {
    received_padding_ = true;
  } else if (!received_padding_) {
    return Verdict{State::kUnknown};
  }
  return Verdict{State::kIgnored, IgnoreRule::kPadding};
}

absl::StatusOr<std::optional<IgnoreRule>> SymptomJudge::RuleFor(
    const TensorInfo& tensor, const Summary& summary, bool knows_padding,
    storage::StopCheck stop) {
  if (tensor.key.io == Io::kOutput && ReturnsUnwritten(tensor.key.op)) {
    return IgnoreRule::kUnwritten;
  }
  if (HasOnlyMinusInfinity(summary)) {
    MSITD_ASSIGN_OR_RETURN(const std::optional<IgnoreRule> rule,
                           MaskRuleFor(tensor, stop));
    if (rule.has_value()) return rule;
  }
  const bool can_have_batch =
      tensor.key.io == Io::kInput || tensor.key.io == Io::kOutput;
  if (!knows_padding || !can_have_batch) return std::nullopt;
  MSITD_ASSIGN_OR_RETURN(const bool is_padding,
                         padding_.Explains(tensor, summary, stop));
  if (is_padding) return IgnoreRule::kPadding;
  return std::nullopt;
}

absl::StatusOr<std::optional<IgnoreRule>> SymptomJudge::MaskRuleFor(
    const TensorInfo& tensor, storage::StopCheck stop) {
  const TensorKey& key = tensor.key;
  if (key.io == Io::kInput) return IgnoreRule::kMaskInput;
  if (key.io != Io::kOutput) return std::nullopt;
  if (received_minus_infinity_) return IgnoreRule::kPassedOn;
  if (WritesMask(key.op)) return IgnoreRule::kMaskOp;
  if (IsFunction(key.op) || IsCollective(key.op)) {
    if (IsLogarithm(key.op) && received_zero_) return IgnoreRule::kLogOfZero;
    return std::nullopt;
  }
  MSITD_ASSIGN_OR_RETURN(const ModuleTree* const tree,
                         trees_.Of(key.rank, stop));
  const ModuleFacts* const facts = tree->Find(key.op);
  if (facts != nullptr && IsArithmeticModule(facts->module_class)) {
    return std::nullopt;
  }
  return IgnoreRule::kMaskModule;
}

}  // namespace msitd::origin
