// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// The tensors of a call that has one argument x and one result y, all of one
// shape.
struct KinkedCall {
  const TensorPair& input;        // x
  const TensorPair& grad_output;  // dL/dy
  const TensorPair& grad_input;   // dL/dx
};

// Returns how many elements of x have another sign in the other run, if in both
// runs, dL/dx is dL/dy where x > 0, and c dL/dy elsewhere, for one number c. So
// it is for functions with a kink at 0, such as ReLU (c = 0), leaky ReLU and
// the absolute value (c = -1). Returns nullopt for other functions.
//
// Rounding errors change the sign of numbers near 0, and with it the derivative
// by its full size. With a relative error e of x, the error of dL/dx is about
// the square root of e. It is correct if each run has the derivative at its own
// x.
//
// Errors: those of ElementReader.
absl::StatusOr<std::optional<uint64_t>> CountChangedSigns(
    const KinkedCall& call, const PairRuns& runs, WorkObserver& observer);

}  // namespace msitd::compare
