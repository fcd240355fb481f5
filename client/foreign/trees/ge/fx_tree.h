// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// True if there are files that are named as FX dumps.
bool LooksLikeFx(const TreeSample& sample);

// Opens what TorchAir's eager mode dumps: one entry for each tensor.
OpenedTree OpenFxTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
