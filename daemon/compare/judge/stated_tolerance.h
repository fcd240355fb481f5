// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/compare/judge/pair_plan.h"
#include "daemon/predicate/predicate.h"

namespace msitd::compare {

// The statement of a golden run on one of its tensors; see
// protos/base/tolerance_record.h. Immutable.
struct StatedTolerance {
  // The condition for a pass. Absent if the tensor is not judged.
  std::optional<predicate::Predicate> predicate;
  // Why the tensor is not judged.
  std::string reason;
  // True if the tensor follows from others, so that the comparison is complete
  // without it.
  bool is_covered = false;
};

// Parses a statement. Text that is not one states that nothing is known about
// the tensor.
StatedTolerance ParseStatedTolerance(std::string_view text);

// Makes a plan follow a statement. A predicate replaces that of the default
// policy only: a rule or another preset of the user takes precedence.
void ApplyStatedTolerance(std::shared_ptr<const StatedTolerance> stated,
                          PairPlan& plan);

}  // namespace msitd::compare
