// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protos/base/dtype.h"

// The data of an op whose output differs, as far as explanations need it.
namespace msitd::compare::explain {

// Maximum number of elements of each tensor that is examined: 2 MiB of float32.
// Only the first whole rows of larger tensors are examined. Twice as many
// elements take more than 50 ms.
inline constexpr uint64_t kExaminedElementsMax = uint64_t{1} << 19;
// Maximum number of tensors that an op was computed from.
inline constexpr size_t kExaminedInputsMax = 4;
// Tensors with fewer elements are equal to each other, or to a fit, by chance.
inline constexpr size_t kExaminedElementsMin = 8;

// A tensor in row-major order. The product of `shape` is the size of `values`.
struct Elements {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// A tensor that the op was computed from, in the golden run.
struct ExaminedInput {
  std::string name;  // `input/0`, `weight/bias` or another op. Foreign text.
  Elements elements;
};

// An output in both runs, and the golden tensors that it was computed from.
struct ExaminedOp {
  Elements golden;
  Elements target;
  // The type of the target.
  DType dtype = DType::kFloat32;
  std::vector<ExaminedInput> inputs;
  // The largest relative error of a correct target: see NoiseOf.
  double noise = 0;
  // An earlier token at which the op returned the bytes of the target in the
  // target run.
  std::optional<int64_t> stale_token;
};

// Returns the relative error that a correct op can have if its inputs have the
// error `input_error` and the coarsest type of its tensors is `type`: at least
// some roundings, for a type of 16 bits or fewer one, and otherwise those of
// its sums. 0 for integers with equal inputs.
double NoiseOf(double input_error, DType type);

}  // namespace msitd::compare::explain
