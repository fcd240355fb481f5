// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Prints on stderr the flags that would pair tensors without a counterpart, or
// allow them, or compare tensors in another arrangement, and what such a flag
// would stop checking.
void TellPairingHints(const v1::Comparison& comparison);

}  // namespace msitd::msitctl
