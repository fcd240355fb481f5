// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <vector>

#include "daemon/compare/explain/explain.h"
#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/op_examiner.h"
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

}  // namespace

void ComparisonEngine::ExplainMaker(const TensorGroup& group, size_t pair,
                                    v1::Maker& maker) {
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
    *maker.add_explanations() = ExplanationMessage(one);
  }
}

}  // namespace msitd::compare
