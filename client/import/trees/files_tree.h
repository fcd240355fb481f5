// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/import/trees/detect.h"

namespace msitd::trees {

// Opens a folder of files in any layout: one entry for each file, of rank 0 and
// token 0, in the order of their paths. The op is the path without its suffix;
// if two files of a folder differ in their suffixes only, the later one is
// another call. A file that client/import/formats does not open is a problem.
OpenedTree OpenFilesTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
