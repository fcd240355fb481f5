// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "daemon/compare/view/view_plan.h"
#include "daemon/compare/view/view_step.h"

namespace msitd::compare {

// Maximum total length of the texts of all plans in a PlanCache, in bytes. It
// bounds the memory of the plans: a plan takes up to about 100 times the length
// of its text, for a `rows` that lists single rows.
inline constexpr size_t kPlanTextsMax = size_t{1} << 20;

// The plans of the views of a group of tensors. A run has few different shapes
// and many tensors. Tensors of equal shapes and types that are seen in the same
// way share a plan, so that their number does not multiply it.
//
// Thread-compatible.
class PlanCache {
 public:
  // Returns what MakeViewPlan returns. `text` is the text of `steps`. If
  // `is_read`, the elements will be read, and the cost of that is checked.
  //
  // Errors: those of MakeViewPlan and CheckReadCost; FAILED_PRECONDITION if the
  // plans of different shapes and types would exceed `texts_max`
  // (kPlanTextsMax).
  absl::StatusOr<SharedPlan> Get(const std::string& text,
                                 std::span<const ViewStep> steps,
                                 std::span<const ViewLeaf> leaves,
                                 bool is_read);

  explicit PlanCache(size_t texts_max = kPlanTextsMax)
      : texts_max_(texts_max) {}

  size_t plan_count() const { return plans_.size(); }

 private:
  const size_t texts_max_;
  size_t texts_size_ = 0;
  std::unordered_map<std::string, absl::StatusOr<SharedPlan>> plans_;
};

}  // namespace msitd::compare
