// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/base/dtype.h"

namespace msitd {

// Returns the number of type `dtype` that is nearest to `value`; the even one
// if two are equally near, and an infinity beyond the range. Rounds only for
// float16, bfloat16 and float32; returns `value` for other types.
double RoundTo(DType dtype, double value);

}  // namespace msitd
