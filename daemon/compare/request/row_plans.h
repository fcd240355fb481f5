// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/compare/view/view_plan.h"
#include "protos/base/request_rows.h"

namespace msitd::compare {

// Maximum number of plans that a RowPlans keeps. The layers of a model have
// equal tensors, so that few plans are needed. A plan takes about 500 bytes for
// each tensor that it reads.
inline constexpr size_t kRowPlansMax = 512;

// All that a plan depends on, as numbers.
using PlanKey = std::vector<int64_t>;

// The plans of the rows of one part of a request, and the text of its
// positions. Tensors of equal shapes and types share a plan.
//
// Thread-compatible.
class RowPlans {
 public:
  RowPlans() = default;
  RowPlans(const RowPlans&) = delete;
  RowPlans& operator=(const RowPlans&) = delete;

  // Drops all plans.
  void Clear();

  // Returns an empty key to fill. Its memory is reused by the next call.
  PlanKey& NewKey();

  // Returns the plan with this key. `make` makes it when the key is new. An
  // error of `make` is kept as well.
  absl::StatusOr<SharedPlan> Get(
      const PlanKey& key, absl::FunctionRef<absl::StatusOr<SharedPlan>()> make);

  // Returns PositionsText (request_view.h). Valid until the next call.
  const std::string& TextOf(std::span<const RowRange> positions);

  size_t plan_count() const { return plans_.size(); }

 private:
  // By the bytes of their keys.
  std::unordered_map<std::string, absl::StatusOr<SharedPlan>> plans_;
  PlanKey new_key_;
  // Almost all tensors of a part have the same plan and the same positions.
  PlanKey last_key_;
  const absl::StatusOr<SharedPlan>* last_plan_ = nullptr;  // In plans_.
  std::vector<RowRange> last_positions_;
  std::string last_text_;
};

}  // namespace msitd::compare
