// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Opens a folder of files in any layout: one entry for each file. Rank, token
// and op are what file_place.h reads of the path without its suffix; if two
// files are the same op of a rank and token, the later one is another call. A
// file that client/foreign/formats does not open is a problem.
//
// A word for the rank in the middle of a name counts only if the ranks of all
// files are 0, 1, 2 and so on; else, and where the other files are not seen
// (one file, or a folder that grows), it is a part of the op. If the user says
// the rank and the files have several, none counts.
//
// Nothing says in which order the tensors were computed: entries are ordered by
// names::EndsBefore, and has_known_order() is false.
//
// A folder with the index of an export of msitd is opened by OpenIndexTree
// instead, unless the folder grows.
OpenedTree OpenFilesTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
