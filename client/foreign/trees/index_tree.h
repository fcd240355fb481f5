// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Opens a folder that `msitctl run export` has written as npy, npz, safetensors
// or pt, by its index (client/foreign/names/export_index.h): each record gets
// the key, the kind and the place in the order of execution that it had in its
// run. Records without a file, files that the index does not name, and lines
// that cannot be read are problems. Of a file, only names inside of the folder
// are opened.
//
// Memory: 32 bytes for each record, and the record that is read.
OpenedTree OpenIndexTree(const TreeFolder& folder);

}  // namespace msitd::trees
