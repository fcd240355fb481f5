// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/base/dtype.h"

namespace msitd {

// Returns the number of `dtype` that is nearest to `value`, the even one of
// two; an infinity beyond its range. Only float16, bfloat16 and float32 round;
// for other types it returns `value`.
double RoundTo(DType dtype, double value);

}  // namespace msitd
