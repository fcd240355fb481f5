// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Maximum number of arguments in a text, and of bytes shown of each value.
inline constexpr size_t kArgumentsNamedMax = 4;
inline constexpr size_t kArgumentTextMax = 48;

// An argument with different numbers.
struct NumberDifference {
  double golden = 0;
  double target = 0;
};

// The differences between the non-tensor arguments of two calls.
struct ArgumentDifferences {
  // A text such as `other argument: scale: target 1, golden 0.125`; empty if
  // there is no difference. Printable UTF-8.
  std::string text;
  // True if the calls certainly request different things. Either both have an
  // argument with different values, or only one of them has additional keyword
  // arguments, none of which looks like a default (zero, false or empty).
  bool is_certain = false;
  // The arguments in the text whose values are numbers in both calls.
  std::vector<NumberDifference> numbers;
};

// Compares the arguments of a call in the golden run with those of a call in
// the target run. Each key identifies a call by one of its tensors. The value
// None counts as an omitted argument, and numbers are compared as numbers.
// Devices and process groups are ignored. The result is empty if one run
// recorded no values of arguments at that rank and token.
//
// Errors: those of the scans and of `stop`.
absl::StatusOr<ArgumentDifferences> FindArgumentDifferences(
    storage::RunReader& golden_run, const TensorKey& golden,
    storage::RunReader& target_run, const TensorKey& target,
    storage::StopCheck stop);

}  // namespace msitd::compare
