// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "client/foreign/trees/detect.h"
#include "client/foreign/trees/name_pattern.h"

namespace msitd::trees {

// Matches the path of a file, relative to its tree, without its suffix or with
// it. Returns nothing if neither matches.
std::optional<NamedPlace> MatchFilePath(const NamePattern& pattern,
                                        const std::string& path);

// Opens a folder of files in any layout, with one entry for each file. Rank,
// token and op are determined from the path without its suffix, as described in
// file_place.h. If two files have the same op, rank and token, the later one is
// another call. A file that client/foreign/formats cannot open is a problem.
//
// A word for the rank in the middle of a name is only used if the ranks of all
// files are 0, 1, 2 and so on. Otherwise, and if the other files are not
// visible (one file, or a folder that grows), it is part of the op. If the user
// specifies the rank and the files have several, none of them is used.
//
// With TreeOptions::name_pattern, these properties are determined from the
// pattern instead. A file that does not match it is a problem. If two files
// have the same place, the tree is not opened, and the error names both; with
// TreeOptions::keeps_first_place, the second one is a problem.
//
// The order in which the tensors were computed is not known: entries are
// ordered by names::EndsBefore, and has_known_order() is false.
//
// A folder with the index of an export of msitd is opened by OpenIndexTree
// instead, unless the folder grows.
OpenedTree OpenFilesTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
