// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Opens what msprobe dumped: see msprobe_layout.h. The token is the step. For
// each rank and token come first the files of JSON as documents, then the
// entries of dump.json and debug.json in their order, one record in memory at
// a time.
//
// A tensor whose file is there has it; of one without, statistics are what is
// known. Where dump.json says that the tensors are is not looked at: they are
// beside it. A file there that no entry names is a problem, and so is an entry
// whose file is missing.
OpenedTree OpenMsprobeTree(const TreeFolder& folder,
                           const TreeOptions& options);

}  // namespace msitd::trees
