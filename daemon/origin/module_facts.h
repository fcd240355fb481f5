// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// A module, as described by the document `module_tree.json` of a rank.
struct ModuleFacts {
  struct Parameter {
    std::string name;
    std::vector<int64_t> shape;
  };

  std::string
      module_class;    // With its path, such as torch.nn.modules.linear.Linear.
  std::string parent;  // Empty for a model itself.
  bool is_training = true;            // The mode when it was described.
  std::vector<std::string> children;  // Ops.
  std::vector<Parameter> parameters;  // Its own ones.
};

// A document that is longer, or lists more modules, is not used.
inline constexpr uint64_t kModuleTreeBytesMax = uint64_t{16} << 20;
inline constexpr int kModulesMax = 1 << 18;

// The modules of the models of a rank, by op. Empty without a document.
class ModuleTree {
 public:
  ModuleTree() = default;

  // Parses the text of a document. It is untrusted: returns an empty tree if it
  // is damaged.
  static ModuleTree Parse(std::string_view text);

  // Returns null for an op that is not a known module.
  const ModuleFacts* Find(std::string_view op) const;

  // Returns whether `op` and all modules inside it are known, compute only with
  // their arguments, parameters and buffers, and do not communicate.
  bool IsPlain(std::string_view op) const { return IsPlain(op, 0); }
  // Returns whether `op` or a module inside it has parameters. True if modules
  // are nested too deeply to tell.
  bool HasParameters(std::string_view op) const { return HasParameters(op, 0); }

  bool empty() const { return modules_.empty(); }

 private:
  bool IsPlain(std::string_view op, int depth) const;
  bool HasParameters(std::string_view op, int depth) const;

  std::unordered_map<std::string, ModuleFacts> modules_;
};

// Reads the module trees of the ranks of a run as they are needed. Keeps the
// last one, because ranks are processed one after the other.
// Thread-compatible. The reader must outlive it.
class ModuleTrees {
 public:
  explicit ModuleTrees(storage::RunReader& run) : run_(run) {}

  // Returns the tree of a rank, valid until the next call for another rank.
  //
  // Errors: that of `stop`; those of the reader that do not concern a single
  // document.
  absl::StatusOr<const ModuleTree*> Of(int32_t rank, storage::StopCheck stop);

 private:
  storage::RunReader& run_;
  int32_t rank_ = -1;
  ModuleTree tree_;
};

}  // namespace msitd::origin
