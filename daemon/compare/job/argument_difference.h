// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Arguments that are named at most, and bytes of a value that are shown.
inline constexpr size_t kArgumentsNamedMax = 4;
inline constexpr size_t kArgumentTextMax = 48;

// What differs between the arguments of two calls that are no tensors.
struct ArgumentDifferences {
  // Such as `other argument: scale: target 1, golden 0.125`; empty if nothing
  // does. Printable UTF-8.
  std::string text;
  // True if the two calls ask for different things beyond doubt: both give an
  // argument, of which the values differ; or one of them alone names arguments,
  // which are not zero, false or empty, as defaults are.
  bool is_certain = false;
};

// Compares a call in the golden run with one in the target, of which each key
// has a tensor. None counts as no argument, numbers are compared as such, and
// devices and groups of processes may differ.
//
// Errors: those of the scans and of `stop`.
absl::StatusOr<ArgumentDifferences> FindArgumentDifferences(
    storage::RunReader& golden_run, const TensorKey& golden,
    storage::RunReader& target_run, const TensorKey& target,
    storage::StopCheck stop);

}  // namespace msitd::compare
