// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Returns true if there are GE dumps that MindIE did not write, or graphs of
// TorchAir and no other files.
bool LooksLikeGe(const TreeSample& sample);

// Opens a dump of TorchAir's graph mode, with one entry for each task. Its file
// specifies io and index of its tensors.
OpenedTree OpenGeTree(const TreeFolder& folder, const TreeOptions& options);

// Returns true if there are GE dumps of a model with the name Graph, which
// MindIE uses for all models.
bool LooksLikeMindie(const TreeSample& sample);

// Opens a dump of MindIE-Torch: GE dumps, and two files that map ops to nodes
// of the model. If a folder of mappings is given, both files are there, and
// those in the tree are ignored.
OpenedTree OpenMindieTree(const TreeFolder& folder, const TreeOptions& options);

// Returns NOT_FOUND with the name of the missing file unless `folder` contains
// both mappings or links to them, which TreeOptions::mapping_folder requires.
absl::Status CheckMappingFolder(const std::string& folder);

}  // namespace msitd::trees
