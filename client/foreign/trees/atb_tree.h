// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Returns true if there are files intensor<N>.bin and outtensor<N>.bin, or
// topologies in model/<process>.
bool LooksLikeAtb(const TreeSample& sample);

// Opens a dump of the acceleration library: the folder above a msit_dump, or
// any folder between it and a token. Ranks are the processes, ordered by
// device. Topologies and tables are attachments.
OpenedTree OpenAtbTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
