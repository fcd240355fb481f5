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
  // The name of its op in a run: `root.model.norm`, `13_RmsNormOperation`.
  std::string op;
  // For a linear operation.
  bool has_bias = false;
  // For an elementwise operation: 8 adds. -1 if there is none.
  int64_t elewise_type = -1;
  size_t parent = 0;
  std::vector<size_t> children;
};

// The modules of a model. Number 0 is the root, and parents precede their
// children, as in the text.
class ModuleTree {
 public:
  ModuleTree() : nodes_(1) {}

  const ModuleNode& operator[](size_t number) const { return nodes_[number]; }
  ModuleNode& operator[](size_t number) { return nodes_[number]; }
  size_t size() const { return nodes_.size(); }

  // Returns the number of the new node. `parent` must exist.
  size_t Add(size_t parent, ModuleNode node);

  // Returns the nodes below `top` without children, in order.
  std::vector<size_t> LeavesOf(size_t top) const;
  // Returns `top` and the nodes below it, in order.
  std::vector<size_t> AllOf(size_t top) const;
  // Returns the children of the children of `top`.
  std::vector<size_t> GrandchildrenOf(size_t top) const;
  // Returns the next child of its parent; 0 if it is the last one.
  size_t NextSibling(size_t number) const;

  // Returns the layers of a model: the modules of the most common type among
  // more than 10 children of one module.
  std::vector<size_t> Layers() const;

  // Returns the layers of a model that has too few for Layers: at least two
  // children of one module that have the same type, modules of their own, and
  // names that end with a digit. The module closest to the root is used. This
  // finds the blocks of a small model, but not the linear modules of a
  // sequence.
  std::vector<size_t> FewLayers() const;

 private:
  // Calls `take` with each node below `top`, in order. Descends into a node if
  // it returns true.
  template <typename Take>
  void Walk(size_t top, const Take& take) const;
  std::string LayerType() const;

  std::vector<ModuleNode> nodes_;
};

// Parses the `model_tree.json` of a torch model. The bytes are untrusted.
// Errors: INVALID_ARGUMENT with the name of the file.
absl::StatusOr<ModuleTree> ParseModelTree(std::string_view file,
                                          std::string_view text);

// Returns whether a file is the topology of a model of the acceleration
// library: JSON with nodes. The bytes are untrusted. Returns INVALID_ARGUMENT
// if they are not JSON.
absl::StatusOr<bool> HasNodes(std::string_view file, std::string_view text);

// Parses the topology of a model of the acceleration library. Its first
// operation has the number `first` in the names of ops.
absl::StatusOr<ModuleTree> ParseTopology(std::string_view file,
                                         std::string_view text, size_t first);

// Returns the number at the end of the name of the first operation; 0 if it has
// none. This is its number in the names of ops if nothing was converted before
// it.
size_t FirstNumberOf(const ModuleTree& topology);

// Creates a tree from the ops of a torch run, whose names are paths with dots.
// Types are not known: modules that differ only in their number have the same
// type.
ModuleTree TreeOfOps(const RunFacts& run);

// The end of the path of a torch run's `model_tree.json`.
inline constexpr std::string_view kModelTreeFile = "model_tree.json";

// Returns the tree of a torch run: its `model_tree.json`, or a tree of its ops.
// Errors: those of ParseModelTree.
absl::StatusOr<ModuleTree> TorchTreeOf(const RunFacts& run);

}  // namespace msitd::match
