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

// A folder of a sample, and some of its contents.
struct SampledFolder {
  // Relative to the tree.
  std::string path;
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

// The part of a tree from which its kind is detected: folders from the top
// down, within the limits of tree_limits.h.
struct TreeSample {
  // As TreeFolder::above.
  std::vector<std::string> above;
  std::vector<SampledFolder> folders;
};

using OpenedTree = absl::StatusOr<std::unique_ptr<Tree>>;

// A reader. `fits` returns whether a sample is of its kind; null if the kind is
// never detected by content.
struct TreeReader {
  TreeKind kind;
  bool (*fits)(const TreeSample& sample);
  OpenedTree (*open)(const TreeFolder& folder, const TreeOptions& options);
};

TreeSample TakeSample(const TreeFolder& folder);

// Returns the reader for a kind; INVALID_ARGUMENT if there is none.
absl::StatusOr<TreeReader> ReaderOf(TreeKind kind);

// Returns the reader for the tree in `folder`: the only one that fits, or
// kFiles if none fits and there are files that contain tensors. Otherwise
// returns INVALID_ARGUMENT with the kinds that are possible.
absl::StatusOr<TreeReader> DetectReader(const TreeFolder& folder);

}  // namespace msitd::trees
