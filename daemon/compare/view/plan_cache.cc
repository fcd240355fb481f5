// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/plan_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "daemon/compare/view/read_cost.h"
#include "protos/base/dtype.h"
#include "protos/status/status.h"

namespace msitd::compare {

absl::StatusOr<SharedPlan> PlanCache::Get(const std::string& text,
                                          std::span<const ViewStep> steps,
                                          std::span<const ViewLeaf> leaves,
                                          bool is_read) {
  // Leaves consist of numbers and names, so that the text can be last.
  std::string key = is_read ? "read " : "";
  for (const ViewLeaf& leaf : leaves) {
    key += fmt::format("{}[{}]", DTypeName(leaf.dtype),
                       fmt::join(leaf.shape, ","));
  }
  key += '\0';
  key += text;
  if (const auto found = plans_.find(key); found != plans_.end()) {
    return found->second;
  }
  if (text.size() > texts_max_ - texts_size_) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "tensors of this rank and token are seen in too many "
                      "different ways: more than {} bytes of views of "
                      "different shapes",
                      texts_max_);
  }
  texts_size_ += text.size();
  const auto make = [&]() -> absl::StatusOr<SharedPlan> {
    MSITD_ASSIGN_OR_RETURN(ViewPlan plan, MakeViewPlan(steps, leaves));
    if (is_read) MSITD_RETURN_IF_ERROR(CheckReadCost(plan, leaves));
    return std::make_shared<const ViewPlan>(std::move(plan));
  };
  return plans_.emplace(std::move(key), make()).first->second;
}

}  // namespace msitd::compare
