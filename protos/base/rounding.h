// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protos/base/dtype.h"

namespace msitd {

// The number of `dtype` that is nearest to `value`, of two the even one: an
// infinity beyond its range. Only float16, bfloat16 and float32 round; of
// other types `value` comes back.
double RoundTo(DType dtype, double value);

}  // namespace msitd
