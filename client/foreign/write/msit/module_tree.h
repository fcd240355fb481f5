// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msitd::write {

// The longest document that is parsed as a tree.
inline constexpr size_t kTreeBytesMax = size_t{64} << 20;

// The modules of a rank's model, according to its document `module_tree.json`,
// or `model_tree.json` of msit.
struct ModuleTree {
  struct Module {
    std::string op;      // `root`, `root.layers.0`.
    std::string type;    // The class, without its path: `Linear`.
    std::string parent;  // An op; empty for the model itself.
    // Own parameters by name, with `shape` and `dtype`: an object of JSON.
    // Empty if the module has none, or the document does not contain them.
    std::string parameters;
  };

  bool is_of_msit = false;  // It is `model_tree.json`.
  // In the order of the document: parents before their children.
  std::vector<Module> modules;
  std::map<std::string, size_t, std::less<>> by_op;

  // Returns the class of an op; empty if it is not a module.
  std::string_view TypeOf(std::string_view op) const;
};

// Parses either document. Returns an empty tree for any other text. Modules
// beyond a nesting depth of 256 are ignored.
ModuleTree ParseModuleTree(std::string_view document);

// Returns `model_tree.json` as msit writes it. Modules with parameters also
// have `parameters`, which msit ignores.
std::string MsitModelTree(const ModuleTree& tree);

}  // namespace msitd::write
