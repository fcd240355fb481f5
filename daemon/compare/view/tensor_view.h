// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/view/plan_cache.h"
#include "daemon/compare/view/shared_tensors.h"
#include "daemon/compare/view/view_plan.h"
#include "daemon/compare/view/view_step.h"

// Views of tensors, which apply before the tensors are compared.
//
// Two runs often hold the same values in different shapes: [s,b,h] and [b,s,h],
// or one fused projection and three separate ones. A view is a description that
// turns one form into the other. It is applied to the tensors of a group before
// they are paired, so that all later steps use the shape and the type of the
// view. Its bytes are only rearranged while they are read
// (daemon/compare/measure/view_stream.h); a viewed tensor of any size needs a
// fixed amount of memory.
//
// The price is that a view has no hash, and no summary unless it keeps all
// elements. Tensors that differ in shape only must therefore be read even if
// their bytes are equal.
namespace msitd::compare {

// The view of a LogicalTensor.
struct TensorView {
  std::string text;  // See v1.ComparedTensor.view.
  // Null if the view could not be planned. Views of tensors with equal shapes
  // may share it.
  SharedPlan plan;
  // The tensors that the view reads, with their layouts but without views. The
  // first one is the tensor that it applies to.
  SharedTensors leaves;
  // Why the tensor cannot be seen in this way. Empty if it can.
  std::string problem;
  // A tensor that the view reads was not recorded, or not all of its shards
  // were. If the run grows, this may change.
  bool lacks_leaf = false;
  // The view has the rows of a request.
  bool is_of_request = false;
  // The text of the view whose rows they are. Empty for rows of the recorded
  // tensor.
  std::string rows_of;
  // Number of the rule of ViewRules that the view follows from.
  std::optional<size_t> rule;
};

// How to see a tensor.
struct ViewRequest {
  std::string text;
  std::span<const ViewStep> steps;
  std::optional<size_t> rule = {};  // See TensorView::rule.
};

// Sees `tensor` as requested. `others` are the tensors of LeafNamesOf, null for
// one that is missing. The shape, the type, the size and the summary of the
// result are those of the view. If the view does not fit, they are those of the
// tensor, and the view has a problem. No argument may have a view. `plans` has
// the plans of the other tensors of the group.
LogicalTensor Viewed(const LogicalTensor& tensor, ViewRequest request,
                     std::span<const LogicalTensor* const> others,
                     PlanCache& plans);

// Sees tensors of one name at several tokens as the rows of a request. `first`
// is the first of them, and may have a view; the name, the pair of the mapping
// and the rule of the result are those of `first`. `leaves` are the recorded
// tensors that are read, at least one and none with a view, and `make_plan`
// returns the plan for their ViewLeavesOf. If it fails, the view has its
// message as a problem, and the other fields are those of the first leaf. If
// `is_read`, the elements will be read, and `make_plan` checks the cost of
// that.
LogicalTensor SeenAsRequest(
    const LogicalTensor& first, const std::string& positions,
    SharedTensors leaves,
    absl::FunctionRef<absl::StatusOr<SharedPlan>(bool is_read)> make_plan);

// Returns a copy of a tensor whose view does not keep the other tensors of its
// token in memory.
LogicalTensor Detached(const LogicalTensor& tensor);

// Returns the shapes and the types of tensors as a view reads them.
std::vector<ViewLeaf> ViewLeavesOf(std::span<const LogicalTensor> tensors);

// Returns the type of the elements that reading a tensor results in.
DType StreamDType(const LogicalTensor& tensor);

// Returns why the view of a tensor does not fit. Empty if it fits or there is
// none.
const std::string& ViewProblem(const LogicalTensor& tensor);

// Returns whether the elements must be rearranged while they are read. They are
// those of the tensor in their order if there is no view or it only changes the
// shape.
bool IsRearranged(const LogicalTensor& tensor);

// Returns the tensors whose bytes are read: the leaves of a view that
// rearranges, otherwise the tensor itself.
std::span<const LogicalTensor> LeavesOf(const LogicalTensor& tensor);

// Returns the assembly of the tensor whose copies differ, or the first one of
// those that the rows of a request are from. Returns null if all copies agree.
const Assembly* DifferingCopies(const LogicalTensor& tensor);

// Returns the key of the recorded tensor.
const TensorKey& RecordedKey(const LogicalTensor& tensor);

}  // namespace msitd::compare
