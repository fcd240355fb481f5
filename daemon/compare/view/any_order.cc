// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/any_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/compare/view/tensor_view.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

// Returns the rows that the view of a tensor states; nothing without the step.
std::optional<RowSlices> StatedRows(const LogicalTensor& tensor) {
  if (tensor.view == nullptr || tensor.view->plan == nullptr ||
      !tensor.view->plan->any_order.has_value()) {
    return std::nullopt;
  }
  const size_t dim = *tensor.view->plan->any_order;
  RowSlices out;
  out.count = static_cast<uint64_t>(tensor.shape[dim]);
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i < dim) out.outer *= static_cast<uint64_t>(tensor.shape[i]);
    if (i > dim) out.inner *= static_cast<uint64_t>(tensor.shape[i]);
  }
  return out;
}

// Returns the size of the elements that reading the tensor results in. Those of
// a sum may be wider than those of its shards.
uint64_t StreamBytes(const LogicalTensor& tensor) {
  const bool is_sum = tensor.assembly != nullptr && tensor.assembly->is_sum();
  const uint64_t width = ElementBytes(tensor.dtype);
  return ElementCount(tensor.shape) *
         (is_sum ? std::max<uint64_t>(width, sizeof(double)) : width);
}

}  // namespace

bool IsInAnyOrder(const LogicalTensor& golden, const LogicalTensor& target) {
  return StatedRows(golden).has_value() || StatedRows(target).has_value();
}

std::optional<RowSlices> AnyOrderRows(const LogicalTensor& golden,
                                      const LogicalTensor& target) {
  if (!AnyOrderProblem(golden, target).empty()) return std::nullopt;
  const std::optional<RowSlices> rows = StatedRows(golden);
  return rows.has_value() ? rows : StatedRows(target);
}

std::string AnyOrderProblem(const LogicalTensor& golden,
                            const LogicalTensor& target) {
  for (const LogicalTensor* const tensor : {&golden, &target}) {
    if (tensor->kind != RecordKind::kTensor) {
      return "statistics do not have the rows that any_order compares";
    }
  }
  const std::optional<RowSlices> of_golden = StatedRows(golden);
  const std::optional<RowSlices> of_target = StatedRows(target);
  if (of_golden.has_value() && of_target.has_value() &&
      *of_golden != *of_target) {
    return fmt::format(
        "any_order of golden has {} rows of {} elements, that of target {} of "
        "{}{}",
        of_golden->count, of_golden->width(), of_target->count,
        of_target->width(),
        of_golden->count == of_target->count ? " in another arrangement" : "");
  }
  const uint64_t count =
      of_golden.has_value() ? of_golden->count : of_target->count;
  if (count > kAnyOrderRowsMax) {
    return fmt::format("any_order compares at most {} rows, not {}",
                       kAnyOrderRowsMax, count);
  }
  const uint64_t bytes = StreamBytes(golden) + StreamBytes(target);
  if (bytes > kAnyOrderBytesMax) {
    return fmt::format(
        "any_order compares tensors of at most {} bytes together, not {}; "
        "compare a slice of them",
        kAnyOrderBytesMax, bytes);
  }
  return "";
}

}  // namespace msitd::compare
