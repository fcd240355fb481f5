// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// True if there are files intensor<N>.bin and outtensor<N>.bin, or topologies
// in model/<process>.
bool LooksLikeAtb(const TreeSample& sample);

// Opens what the acceleration library dumps: the folder above a msit_dump, or
// any on the way from there to a token. Ranks are the processes, by device.
// Topologies and tables are attachments.
OpenedTree OpenAtbTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
