// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/judge_basis.h"

#include <algorithm>
#include <array>

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/judge/precision.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {
namespace {

// Returns the type that limits the precision of a side.
DType PrecisionOf(v1::DType joined, const v1::ComparedTensor& side) {
  return static_cast<DType>(joined == v1::D_TYPE_UNSPECIFIED ? side.dtype()
                                                             : joined);
}

// Returns whether copies differ, or shards do not fit together.
bool HasInconsistentShards(const LogicalTensor& tensor) {
  return DifferingCopies(tensor) != nullptr ||
         (tensor.assembly != nullptr &&
          tensor.assembly->problem == Assembly::Problem::kShardsUnfit);
}

PairForm FormOf(const v1::ComparedTensor& golden) {
  const auto kind = static_cast<RecordKind>(golden.kind());
  if (IsValue(kind)) return PairForm::kValues;
  return ElementCount(golden.shape()) == 1 ? PairForm::kSingle
                                           : PairForm::kTensors;
}

// Returns the basis of the pair of a row.
Basis BasisOf(const v1::ComparisonRow& row) {
  const v1::JudgeBasis& basis = row.judge_basis();
  return {static_cast<DType>(basis.computed_in()), basis.has_equal_inputs()};
}

}  // namespace

void AddJudgeBasis(const TensorPair& pair, const PairPlan& plan,
                   bool is_model_input, v1::ComparisonRow& row) {
  const std::array sides = {pair.golden, pair.target};
  const bool has_inconsistent_shards =
      std::any_of(sides.begin(), sides.end(), [](const auto* tensor) {
        return tensor != nullptr && HasInconsistentShards(*tensor);
      });
  if (has_inconsistent_shards && row.verdict() == v1::FAIL) {
    row.mutable_judge_basis()->set_has_inconsistent_shards(true);
  }
  if (pair.golden == nullptr || pair.target == nullptr || row.bitwise_equal()) {
    return;
  }
  const auto set_precision = [&](const LogicalTensor& tensor, auto setter) {
    const DType precision = PrecisionOf(tensor);
    if (precision == tensor.dtype) return;
    (row.mutable_judge_basis()->*setter)(static_cast<v1::DType>(precision));
  };
  set_precision(*pair.golden, &v1::JudgeBasis::set_golden_precision);
  set_precision(*pair.target, &v1::JudgeBasis::set_target_precision);
  const Basis& basis = plan.basis.basis;
  const DType own =
      Coarser(PrecisionOf(*pair.golden), PrecisionOf(*pair.target));
  if (Coarser(own, basis.computed_in) != own) {
    row.mutable_judge_basis()->set_computed_in(
        static_cast<v1::DType>(basis.computed_in));
  }
  if (basis.has_equal_inputs) {
    row.mutable_judge_basis()->set_has_equal_inputs(true);
  }
  if (is_model_input) row.mutable_judge_basis()->set_is_model_input(true);
  if (plan.any_order.has_value()) {
    row.mutable_judge_basis()->set_is_in_any_order(true);
  }
  if (row.has_rtol() && plan.verification.request.either) {
    row.mutable_judge_basis()->set_has_either_tolerance(true);
  }
}

Verification VerificationOf(const Policy& policy,
                            const v1::ComparisonRow& row) {
  const v1::JudgeBasis& basis = row.judge_basis();
  TensorKey key;
  key.op = row.op();
  key.io = static_cast<Io>(row.io());
  key.index = row.index();
  return policy.VerificationFor(
      key, PrecisionOf(basis.target_precision(), row.target()),
      PrecisionOf(basis.golden_precision(), row.golden()), BasisOf(row),
      FormOf(row.golden()));
}

bool IsOfStatistics(const v1::ComparisonRow& row) {
  return row.golden().kind() == v1::RECORD_KIND_STATISTICS ||
         row.target().kind() == v1::RECORD_KIND_STATISTICS;
}

bool HasOtherHash(const v1::ComparisonRow& row) {
  return row.golden().dtype() == row.target().dtype() &&
         !row.golden().hash().empty() && !row.target().hash().empty() &&
         row.golden().hash() != row.target().hash();
}

}  // namespace msitd::compare
