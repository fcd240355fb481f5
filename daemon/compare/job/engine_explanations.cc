// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "daemon/compare/explain/explain.h"
#include "daemon/compare/job/argument_difference.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/op_examiner.h"
#include "daemon/compare/job/own_scores.h"
#include "protos/base/dtype.h"

// Explains the differences of causes by simple mistakes.
namespace msitd::compare {
namespace {

static_assert(static_cast<int>(explain::Kind::kSubset) ==
              static_cast<int>(v1::Explanation::SUBSET));
static_assert(static_cast<int>(explain::Kind::kMask) ==
              static_cast<int>(v1::Explanation::MASK));

// Returns whether the tensor of a cause shows what the cause did.
bool HasMadeItsTensor(const v1::Maker& maker) {
  switch (maker.kind()) {
    case v1::Maker::OP:
    case v1::Maker::WEIGHT:
    case v1::Maker::OWN_CODE:
    case v1::Maker::MODEL_INPUTS:
      return true;
    default:
      return false;
  }
}

v1::Explanation ExplanationMessage(const explain::Explanation& explanation) {
  v1::Explanation out;
  out.set_kind(static_cast<v1::Explanation::Kind>(explanation.kind));
  out.set_text(explanation.text);
  out.set_where(explanation.where);
  out.mutable_parameters()->Assign(explanation.parameters.begin(),
                                   explanation.parameters.end());
  out.set_residual(explanation.residual);
  out.set_residual_without(explanation.residual_without);
  out.set_noise(explanation.noise);
  return out;
}

// Returns whether a factor or a constant is only the quotient or the difference
// of an argument, which the note states. The argument is the mistake.
bool RepeatsArgument(const explain::Explanation& explanation,
                     const std::vector<NumberDifference>& arguments) {
  using explain::Kind;
  const Kind kind = explanation.kind;
  if (explanation.parameters.size() != 1 ||
      (kind != Kind::kFactor && kind != Kind::kOffset)) {
    return false;
  }
  const double found = explanation.parameters.front();
  // A factor of many elements has a smaller error than each of them.
  constexpr double kTolerance = 4e-3;
  const double tolerance = kTolerance * std::fabs(found);
  const auto is_found = [&](double expected) {
    return std::fabs(found - expected) <= tolerance;
  };
  return std::any_of(
      arguments.begin(), arguments.end(), [&](const NumberDifference& one) {
        return kind == Kind::kOffset ? is_found(one.target - one.golden) ||
                                           is_found(one.golden - one.target)
                                     : is_found(one.target / one.golden) ||
                                           is_found(one.golden / one.target);
      });
}

}  // namespace

bool ComparisonEngine::IsOfOwnScores(const TensorGroup& group, size_t pair,
                                     v1::Maker& maker) {
  if (examined_ops_ == kExaminedOpsMax || plan_.reading != Reading::kBytes ||
      maker.kind() != v1::Maker::OP || !IsSoftmax(maker.op()) ||
      maker.input_error() == 0) {
    return false;
  }
  ++examined_ops_;
  for (const size_t source : origins_.SourcesOf(pair, kTriedSourcesMax)) {
    const absl::StatusOr<bool> outcome =
        AreOfOwnScores(group.pairs[source], group.pairs[pair],
                       {*golden_, *target_}, observer_);
    if (!outcome.ok() || !*outcome) continue;
    maker.set_kind(v1::Maker::NOT_KNOWN);
    maker.set_note(
        "each run has the softmax of its own scores, whose small differences "
        "it amplifies, as in rows that a mask closes entirely");
    return true;
  }
  return false;
}

void ComparisonEngine::ExplainMaker(
    const TensorGroup& group, size_t pair,
    const std::vector<NumberDifference>& arguments, v1::Maker& maker) {
  const TensorPair& made = group.pairs[pair];
  if (examined_ops_ == kExaminedOpsMax || plan_.reading != Reading::kBytes ||
      !HasMadeItsTensor(maker) || !std::isfinite(maker.input_error()) ||
      !CanBeExamined(made)) {
    return;
  }
  ++examined_ops_;
  std::vector<const TensorPair*> sources;
  for (const size_t source : origins_.SourcesOf(pair, kTriedSourcesMax)) {
    sources.push_back(&group.pairs[source]);
  }
  const auto op =
      ReadExaminedOp(made, sources, /*name_ops=*/maker.kind() != v1::Maker::OP,
                     maker.input_error(), origins_.ComputedIn(pair),
                     {*golden_, *target_}, observer_);
  // The cause is named nevertheless.
  if (!op.ok()) return;
  for (const explain::Explanation& one : explain::Explain(*op)) {
    if (RepeatsArgument(one, arguments)) continue;
    *maker.add_explanations() = ExplanationMessage(one);
  }
}

}  // namespace msitd::compare
