// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Opens a folder that `msitctl run export` wrote as npy, npz, safetensors or
// pt, using its index (client/foreign/names/export_index.h). Each record gets
// the key, the kind and the position in the order of execution that it had in
// its run. Records without a file, files that are not in the index, and lines
// that cannot be parsed are problems. Only files inside the folder are opened.
//
// Memory: 32 bytes for each record, and the record that is being read.
OpenedTree OpenIndexTree(const TreeFolder& folder);

}  // namespace msitd::trees
