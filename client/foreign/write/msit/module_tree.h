// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msitd::write {

// Longest document that is taken for a tree.
inline constexpr size_t kTreeBytesMax = size_t{64} << 20;

// How the model of a rank is built: what its document `module_tree.json`, or
// `model_tree.json` of msit, says of each module.
struct ModuleTree {
  struct Module {
    std::string op;      // `root`, `root.layers.0`.
    std::string type;    // The class, without its path: `Linear`.
    std::string parent;  // An op; empty for the model itself.
    // Own parameters by name, with `shape` and `dtype`: an object of JSON.
    // Empty if it has none, or the document does not say.
    std::string parameters;
  };

  bool is_of_msit = false;  // It is `model_tree.json`.
  // In the order of the document: parents before their children.
  std::vector<Module> modules;
  std::map<std::string, size_t, std::less<>> by_op;

  // The class of an op; empty if it is no module.
  std::string_view TypeOf(std::string_view op) const;
};

// Reads either document. Empty for what is neither; modules beyond a nesting
// of 256 are left out.
ModuleTree ParseModuleTree(std::string_view document);

// Returns `model_tree.json` as msit writes it. Modules with parameters have
// `parameters` besides, which msit does not look at.
std::string MsitModelTree(const ModuleTree& tree);

}  // namespace msitd::write
