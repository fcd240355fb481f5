// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daemon/compute/element_passes.h"

namespace msitd::compute {

// Golden elements below this are taken for masks, and widen no row.
inline constexpr double kMaskedBelow = -1e4;

// Row by row: the KL divergence of the softmaxes, and how far golden prefers
// its own largest element to that of the target. Real pairs only.
std::unique_ptr<ElementPass> MakeLogitPass(const ElementRequest& request);

}  // namespace msitd::compute
