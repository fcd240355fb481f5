// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daemon/compute/element_passes.h"

namespace msitd::compute {

// Golden elements below this count as masked, and do not extend the range of a
// row.
inline constexpr double kMaskedBelow = -1e4;

// For each row: the KL divergence of the softmaxes, and the margin by which
// golden prefers its own largest element to that of the target, relative to the
// range of the row. For real pairs only.
std::unique_ptr<ElementPass> MakeLogitPass(const ElementRequest& request);

}  // namespace msitd::compute
