// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client/foreign/trees/detect.h"

namespace msitd::trees {

// Returns true if there is a model_tree.json, a folder torch_tensors, or a
// folder of a module with the names that msit gives to tensors.
bool LooksLikeMsit(const TreeSample& sample);

// Opens a dump that msit wrote of a torch model: the folder above a msit_dump,
// or any folder between it and a token. Ranks are the processes, ordered by
// device. Token 0 begins with model_tree.json as a document, and the weights.
OpenedTree OpenMsitTree(const TreeFolder& folder, const TreeOptions& options);

}  // namespace msitd::trees
