// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"

namespace msitd::match {

// One module of a model, or one operation of the acceleration library.
struct ModuleNode {
  std::string name;  // `root.model.norm`, `RmsNormOperation_13`.
  std::string type;
  // The op that it is in a run: `root.model.norm`, `13_RmsNormOperation`.
  std::string op;
  // Of a linear operation.
  bool has_bias = false;
  // Of an elementwise operation: 8 adds. -1 if there is none.
  int64_t elewise_type = -1;
  size_t parent = 0;
  std::vector<size_t> children;
};

// The modules of a model; number 0 is the root, and parents come before their
// children, as in their text.
class ModuleTree {
 public:
  ModuleTree() : nodes_(1) {}

  const ModuleNode& operator[](size_t number) const { return nodes_[number]; }
  ModuleNode& operator[](size_t number) { return nodes_[number]; }
  size_t size() const { return nodes_.size(); }

  // Returns the number of the new node. `parent` is there.
  size_t Add(size_t parent, ModuleNode node);

  // Those below `top` that have no children, in order.
  std::vector<size_t> LeavesOf(size_t top) const;
  // Those below `top`, and `top` itself, in order.
  std::vector<size_t> AllOf(size_t top) const;
  // The children of the children of `top`.
  std::vector<size_t> GrandchildrenOf(size_t top) const;
  // What is behind it among the children of its parent; 0 if it is the last.
  size_t NextSibling(size_t number) const;

  // The layers of a model: the modules of the type that is most common among
  // more than 10 children of one module.
  std::vector<size_t> Layers() const;

 private:
  // Calls `take` with all below `top`, in order; goes below a node if it
  // returns true.
  template <typename Take>
  void Walk(size_t top, const Take& take) const;
  std::string LayerType() const;

  std::vector<ModuleNode> nodes_;
};

// Reads the `model_tree.json` of a torch model. The bytes are of a stranger.
// Errors: INVALID_ARGUMENT with the name of the file.
absl::StatusOr<ModuleTree> ParseModelTree(std::string_view file,
                                          std::string_view text);

// Whether a file is the topology of a model of the acceleration library: JSON
// with nodes. The bytes are of a stranger; INVALID_ARGUMENT if they are no
// JSON.
absl::StatusOr<bool> HasNodes(std::string_view file, std::string_view text);

// Reads the topology of a model of the acceleration library. Its first
// operation has the number `first` in the names of ops.
absl::StatusOr<ModuleTree> ParseTopology(std::string_view file,
                                         std::string_view text, size_t first);

// The number at the end of the name of the first operation, which is the one
// that it has in the names of ops if nothing was converted before it. 0 if it
// has none.
size_t FirstNumberOf(const ModuleTree& topology);

// Makes a tree of the ops of a torch run, whose names are paths with dots.
// Types are not known: modules that only differ in their number have the same.
ModuleTree TreeOfOps(const RunFacts& run);

// What `model_tree.json` of a torch run ends with, whatever lies before it.
inline constexpr std::string_view kModelTreeFile = "model_tree.json";

// The tree of a torch run: its `model_tree.json`, or that of its ops. Errors:
// those of ParseModelTree.
absl::StatusOr<ModuleTree> TorchTreeOf(const RunFacts& run);

}  // namespace msitd::match
