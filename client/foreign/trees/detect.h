// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/trees/tree.h"
#include "client/foreign/trees/tree_folder.h"

namespace msitd::trees {

// A folder of a sample, and some of what lies in it.
struct SampledFolder {
  // Relative to the tree.
  std::string path;
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

// What is looked at to find out whose tree it is: folders from the top down,
// within the limits of tree_limits.h.
struct TreeSample {
  // As TreeFolder::above.
  std::vector<std::string> above;
  std::vector<SampledFolder> folders;
};

using OpenedTree = absl::StatusOr<std::unique_ptr<Tree>>;

// A reader. `fits` says whether a sample is of its kind; null if it is never
// found by content.
struct TreeReader {
  TreeKind kind;
  bool (*fits)(const TreeSample& sample);
  OpenedTree (*open)(const TreeFolder& folder, const TreeOptions& options);
};

TreeSample TakeSample(const TreeFolder& folder);

// Returns the reader for a kind; INVALID_ARGUMENT if there is none.
absl::StatusOr<TreeReader> ReaderOf(TreeKind kind);

// Returns the reader whose tree lies in `folder`: the only one that fits, or
// kFiles if none does and there are files that hold tensors. INVALID_ARGUMENT
// otherwise: the message names what it could be.
absl::StatusOr<TreeReader> DetectReader(const TreeFolder& folder);

}  // namespace msitd::trees
