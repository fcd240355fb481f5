// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Arguments and characters of a value that are named at most.
inline constexpr size_t kArgumentsNamedMax = 4;
inline constexpr size_t kArgumentTextMax = 48;

// Returns which arguments that are no tensors differ between a call in the
// golden run and one in the target, of which each key has a tensor: `scale:
// target 1, golden 0.125`. Empty if none does. None counts as no argument, and
// devices may differ.
//
// Errors: those of the scans and of `stop`.
absl::StatusOr<std::string> ArgumentDifference(storage::RunReader& golden_run,
                                               const TensorKey& golden,
                                               storage::RunReader& target_run,
                                               const TensorKey& target,
                                               storage::StopCheck stop);

}  // namespace msitd::compare
