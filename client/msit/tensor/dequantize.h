// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "client/msit/tensor/tensor.h"

namespace msitd::msit_command {

// Returns `(weight - offset) * scale` as torch computes it: shapes are
// broadcast, and each of the two steps is rounded to the type to which torch
// promotes its operands. Errors: INVALID_ARGUMENT for shapes that do not match
// or that msitd cannot store; UNIMPLEMENTED for types other than bool, integers
// up to 64 bits and floating point of 16 bits or more; RESOURCE_EXHAUSTED if
// the result is larger than kViewedBytesMax.
absl::StatusOr<Tensor> Dequantize(const Tensor& weight, const Tensor& offset,
                                  const Tensor& scale);

}  // namespace msitd::msit_command
