// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_statistics.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Returns the name of a leaf for messages, such as `k_proj@output/0`.
std::string NameText(const TensorKey& key, const LeafName& leaf) {
  return fmt::format("{}@{}/{}", leaf.op.empty() ? key.op : leaf.op,
                     IoName(leaf.io.value_or(key.io)),
                     leaf.index.value_or(key.index));
}

// Returns statistics without those that depend on the order of the elements.
std::string WithoutChecksums(const std::string& text) {
  auto statistics = ParseTensorStatistics(text);
  if (!statistics.has_value()) return text;
  std::erase_if(*statistics, [](const TensorStatistic& one) {
    return IsChecksum(one.name);
  });
  return PrintTensorStatistics(*statistics);
}

// Returns why the bytes of a leaf cannot be rearranged; empty if they can.
std::string ProblemOf(const LogicalTensor& leaf) {
  if (leaf.kind == RecordKind::kStatistics) {
    return "statistics do not have the elements that the view needs";
  }
  if (leaf.kind != RecordKind::kTensor) {
    return "the view reads a record that is not a tensor";
  }
  if (leaf.assembly != nullptr && leaf.assembly->awaits_fit) {
    return "the layout `fit` cannot be combined with a view";
  }
  if (!HasAllShards(leaf)) return leaf.assembly->problem_text;
  return "";
}

bool HasSize(const LogicalTensor& leaf) {
  uint64_t bytes = ElementBytes(leaf.dtype);
  for (const int64_t dim : leaf.shape) {
    if (dim < 0 ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      return false;
    }
  }
  return bytes == leaf.tensor_bytes;
}

using PlanMaker = absl::FunctionRef<absl::StatusOr<SharedPlan>(bool is_read)>;

// Finds what prevents a view of its leaves, and makes its plan otherwise.
void PlanLeaves(PlanMaker make, TensorView& view) {
  const LogicalTensor& first = view.leaves.front();
  const bool is_statistics =
      view.leaves.size() == 1 && first.kind == RecordKind::kStatistics;
  for (const LogicalTensor& leaf : view.leaves) {
    if (!is_statistics) view.problem = ProblemOf(leaf);
    view.lacks_leaf = view.lacks_leaf || !HasAllShards(leaf);
    if (view.problem.empty() && !is_statistics && !HasSize(leaf)) {
      view.problem = "the recorded shape does not match the recorded size";
    }
    if (!view.problem.empty()) return;
  }
  const bool is_read =
      !is_statistics &&
      std::all_of(view.leaves.begin(), view.leaves.end(),
                  [](const LogicalTensor& leaf) { return leaf.has_bytes; });
  auto plan = make(is_read);
  if (!plan.ok()) {
    view.problem = std::string(Message(plan.status()));
    return;
  }
  if (ElementCount((*plan)->shape) == 0 && ElementCount(first.shape) != 0) {
    view.problem = fmt::format("it selects no elements of [{}]",
                               fmt::join(first.shape, ","));
    return;
  }
  view.plan = *std::move(plan);
  if (is_statistics &&
      (!view.plan->keeps_all() || view.plan->any_order.has_value())) {
    view.problem = "statistics do not have the elements that the view needs";
  }
}

// Sets the tensors that a view of `tensor` reads. Returns false, and sets the
// problem, if one is missing.
bool SetLeaves(const LogicalTensor& tensor, std::span<const ViewStep> steps,
               std::span<const LogicalTensor* const> others, TensorView& view) {
  const std::vector<LeafName> names = LeafNamesOf(steps);
  std::vector<LogicalTensor> leaves;
  leaves.reserve(1 + names.size());
  leaves.push_back(tensor);
  for (size_t i = 0; i < names.size() && view.problem.empty(); ++i) {
    if (others[i] == nullptr) {
      view.lacks_leaf = true;
      view.problem = fmt::format("{} was not recorded or is not selected",
                                 NameText(tensor.key, names[i]));
    } else {
      leaves.push_back(*others[i]);
    }
  }
  view.leaves = SharedTensors(std::move(leaves));
  return view.problem.empty();
}

// Sets the fields of a tensor that follow from its view.
void Describe(const TensorView& view, LogicalTensor& out) {
  out.shape = view.plan->shape;
  if (view.plan->is_identity()) return;
  out.dtype = view.plan->dtype;
  out.is_rearranged = true;
  out.hash = ContentHash();
  out.has_sample = false;
  out.parts.clear();
  if (out.kind == RecordKind::kStatistics) {
    out.value = WithoutChecksums(out.value);
    return;
  }
  out.tensor_bytes = ElementCount(out.shape) * ElementBytes(out.dtype);
  out.knows_summary = view.plan->keeps_all();
  Summary summary;
  for (const LogicalTensor& leaf : view.leaves) {
    summary = Merge(summary, leaf.summary);
    out.knows_summary = out.knows_summary && leaf.knows_summary;
    out.has_bytes = out.has_bytes && leaf.has_bytes;
    out.is_claimed = out.is_claimed || leaf.is_claimed;
  }
  out.summary = out.knows_summary ? summary : Summary();
}

}  // namespace

LogicalTensor Viewed(const LogicalTensor& tensor, ViewRequest request,
                     std::span<const LogicalTensor* const> others,
                     PlanCache& plans) {
  LogicalTensor out = tensor;
  auto view = std::make_shared<TensorView>();
  view->text = std::move(request.text);
  view->rule = request.rule;
  if (SetLeaves(tensor, request.steps, others, *view)) {
    PlanLeaves(
        [&](bool is_read) {
          return plans.Get(view->text, request.steps,
                           ViewLeavesOf(view->leaves), is_read);
        },
        *view);
  }
  if (view->problem.empty()) Describe(*view, out);
  out.view = std::move(view);
  return out;
}

LogicalTensor SeenAsRequest(
    const LogicalTensor& first, const std::string& positions,
    SharedTensors leaves,
    absl::FunctionRef<absl::StatusOr<SharedPlan>(bool is_read)> make_plan) {
  LogicalTensor out = leaves.front();
  auto view = std::make_shared<TensorView>();
  view->text = positions;
  view->is_of_request = true;
  if (first.view != nullptr) {
    out.key.op = first.key.op;
    out.mapped_pair = first.mapped_pair;
    out.seen_in = first.seen_in;
    view->rows_of = first.view->text;
    view->text += " of " + first.view->text;
    view->rule = first.view->rule;
    view->lacks_leaf = first.view->lacks_leaf;
  }
  view->leaves = std::move(leaves);
  PlanLeaves(make_plan, *view);
  if (view->problem.empty()) Describe(*view, out);
  out.view = std::move(view);
  return out;
}

LogicalTensor Detached(const LogicalTensor& tensor) {
  LogicalTensor out = tensor;
  if (tensor.view == nullptr) return out;
  auto view = std::make_shared<TensorView>(*tensor.view);
  const SharedTensors& leaves = tensor.view->leaves;
  view->leaves =
      SharedTensors(std::vector<LogicalTensor>(leaves.begin(), leaves.end()));
  out.view = std::move(view);
  return out;
}

std::vector<ViewLeaf> ViewLeavesOf(std::span<const LogicalTensor> tensors) {
  std::vector<ViewLeaf> out;
  out.reserve(tensors.size());
  for (const LogicalTensor& tensor : tensors) {
    out.push_back({tensor.shape, StreamDType(tensor)});
  }
  return out;
}

DType StreamDType(const LogicalTensor& tensor) {
  const bool is_sum = tensor.kind != RecordKind::kStatistics &&
                      tensor.assembly != nullptr && tensor.assembly->is_sum();
  return is_sum ? SumDType(tensor.dtype) : tensor.dtype;
}

const std::string& ViewProblem(const LogicalTensor& tensor) {
  static const std::string& none = *new std::string();
  return tensor.view == nullptr ? none : tensor.view->problem;
}

bool IsRearranged(const LogicalTensor& tensor) { return tensor.is_rearranged; }

std::span<const LogicalTensor> LeavesOf(const LogicalTensor& tensor) {
  if (tensor.is_rearranged) return tensor.view->leaves;
  return {&tensor, 1};
}

const Assembly* DifferingCopies(const LogicalTensor& tensor) {
  std::span<const LogicalTensor> parts = {&tensor, 1};
  if (tensor.view != nullptr && tensor.view->is_of_request) {
    parts = tensor.view->leaves;
  }
  for (const LogicalTensor& part : parts) {
    if (part.assembly != nullptr && !part.assembly->difference.empty()) {
      return part.assembly.get();
    }
  }
  return nullptr;
}

const TensorKey& RecordedKey(const LogicalTensor& tensor) {
  return tensor.view == nullptr ? tensor.key : tensor.view->leaves.front().key;
}

}  // namespace msitd::compare
