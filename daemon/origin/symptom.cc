// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/symptom.h"

#include "daemon/origin/op_kinds.h"
#include "daemon/origin/stated_summary.h"
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

bool HasOnlyMinusInfinity(const Summary& summary) {
  return summary.nan_count == 0 && summary.positive_infinity_count == 0 &&
         summary.negative_infinity_count > 0;
}

}  // namespace

std::string_view TextOf(IgnoreRule rule) {
  return kRuleTexts[static_cast<size_t>(rule)];
}

void CallResults::Add(const TensorInfo& tensor, State state) {
  if (tensor.key.io != Io::kOutput) return;
  has_clean_ =
      has_clean_ || (state == State::kClean && IsFloatingPoint(tensor.dtype) &&
                     tensor.kind != RecordKind::kNumber);
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
  Summary summary = tensor.summary;
  std::optional<bool> holds;
  if (tensor.kind == RecordKind::kStatistics && condition_.is_not_finite) {
    const std::optional<StatedSummary> stated = StatedSummaryOf(tensor);
    if (!stated.has_value()) return Verdict{State::kUnknown};
    summary = stated->summary;
    knows_padding = knows_padding && stated->has_counts;
    holds = summary.finite_count() < summary.count;
  } else {
    holds = condition_.holds(tensor);
  }
  if (!holds.has_value()) return Verdict{State::kUnknown};
  if (tensor.key.io == Io::kInput) {
    // An op that writes masks is given -Inf as a number.
    const bool is_fill =
        tensor.kind == RecordKind::kNumber && WritesMask(tensor.key.op);
    received_minus_infinity_ =
        received_minus_infinity_ ||
        (summary.negative_infinity_count > 0 && !is_fill);
    received_zero_ = received_zero_ || summary.zero_count > 0;
  }
  if (!*holds) return Verdict{State::kClean};
  if (!condition_.is_not_finite || condition_.is_strict) {
    return Verdict{State::kSymptom};
  }
  MSITD_ASSIGN_OR_RETURN(const std::optional<IgnoreRule> rule,
                         RuleFor(tensor, summary, knows_padding, stop));
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
