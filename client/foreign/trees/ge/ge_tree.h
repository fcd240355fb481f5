// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// True if there are GE dumps that MindIE did not write, or graphs of TorchAir
// and no other files.
bool LooksLikeGe(const TreeSample& sample);

// Opens what TorchAir's graph mode dumps: one entry for each task, whose file
// says io and index of its tensors.
OpenedTree OpenGeTree(const TreeFolder& folder, const TreeOptions& options);

// True if there are GE dumps of a model that is called Graph, as MindIE calls
// all of them.
bool LooksLikeMindie(const TreeSample& sample);

// Opens what MindIE-Torch dumps: GE dumps, and two files that say which op is
// which node of the model. With a folder of mappings, both files are there, and
// those in the tree do not count.
OpenedTree OpenMindieTree(const TreeFolder& folder, const TreeOptions& options);

// NOT_FOUND, with the name, unless both mappings lie in `folder`, or links to
// them: what TreeOptions::mapping_folder asks for.
absl::Status CheckMappingFolder(const std::string& folder);

}  // namespace msitd::trees
