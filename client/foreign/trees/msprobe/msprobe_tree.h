// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Opens a dump of msprobe: see msprobe_layout.h. The token is the step. For
// each rank and token, the JSON files are the first entries, as documents. The
// entries of dump.json and debug.json follow in their order, with one record in
// memory at a time.
//
// A tensor whose file exists has bytes; otherwise only its statistics are
// known. The folder of tensors in dump.json is ignored: tensors are next to
// dump.json. A file that no entry names is a problem, unless a file of records
// is ignored (TreeOptions::record_file). An entry whose file is missing is a
// problem, too.
OpenedTree OpenMsprobeTree(const TreeFolder& folder,
                           const TreeOptions& options);

}  // namespace msitd::trees
