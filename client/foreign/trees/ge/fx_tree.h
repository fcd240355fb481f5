// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Returns true if there are files with names of FX dumps.
bool LooksLikeFx(const TreeSample& sample);

// Opens a dump of TorchAir's eager mode, with one entry for each tensor.
OpenedTree OpenFxTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
