// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/foreign/match/match_options.h"
#include "client/foreign/trees/tree.h"
#include "client/msit/command/logger.h"
#include "client/msit/compare/batch_tree.h"
#include "client/msit/compare/custom_columns.h"
#include "client/msit/compare/dump_side.h"

namespace msitd::v1 {
class ComparedTensor;
}  // namespace msitd::v1

namespace msitd::msit_command {

// Returns a text whose byte order is that of `text` with its numbers compared
// by value.
std::string NaturalKey(std::string_view text);

// Properties of a side's modules, keyed by the names of its ops. They are read
// from its `model_tree.json`; a dump of the library has only the names.
// Immutable.
class ModuleTypes {
 public:
  // `is_compat`: there are layers only if msit finds them, so only in models
  // with more than ten.
  ModuleTypes(const DumpSide& side, bool is_compat);

  // Returns the type; empty if it is not known.
  std::string TypeOf(const std::string& op) const;

  // Returns true if the tree contains the module as a layer or, for the level
  // module, as a module in a layer that msit compares. Every module is an API.
  bool IsOf(const std::string& op, match::ModuleLevel level) const;
  // Returns true if the tree contains the module.
  bool Has(const std::string& op) const { return types_.contains(op); }

  // Returns a text by which ops are sorted in msit's order: by their numbers.
  // Modules of the level are first, and all modules are in the order of their
  // tree. Ops that modules call follow them.
  std::string OrderOf(const std::string& op, match::ModuleLevel level) const;

  // Returns true if the tree has layers. Without them, no module belongs to the
  // levels layer and module.
  bool has_layers() const { return !layers_.empty(); }

  // Why there are none, or OK.
  const absl::Status& status() const { return status_; }

 private:
  // Positions of modules by name.
  using Places = std::map<std::string, size_t, std::less<>>;

  const Places& PlacesOf(match::ModuleLevel level) const;

  absl::Status status_;
  std::map<std::string, std::string> types_;
  Places places_;
  Places layers_;
  Places modules_;
};

// Returns the bytes of the `model_tree.json` of a torch model; empty if there
// is none.
std::string ModelTreeText(const DumpSide& side);

// A side of the comparison: its tree and the properties of the dump.
// Thread-compatible.
struct LevelSide {
  LevelSide(const DumpSide& side, bool is_compat)
      : about(side), types(side, is_compat) {}

  // Opens the tree and determines its tokens. Returns the errors of OpenTree.
  absl::Status Open(Logger& log);

  // Removes all other tokens. `has_warm_ups`: the warm-up is also compared.
  void Keep(const std::set<int64_t>& kept, bool has_warm_ups);

  // Returns the tensor of a row, and its file. If there are several cards, the
  // file is that of the process which the user names, if it has one.
  TensorPlace PlaceOf(const v1::ComparedTensor& tensor) const;

  // Returns the file of a rank's tensor. `key` becomes the key of that tensor.
  FileIndex::File FileOf(TensorKey& key, int32_t rank) const;

  DumpSide about;
  std::unique_ptr<trees::Tree> tree;
  std::optional<BatchTree> batch;
  ModuleTypes types;
  // Without the warm-up, unless the user requests only the warm-up.
  std::set<int64_t> tokens;
  bool has_warm_up = false;

 private:
  void FindTokens();
};

}  // namespace msitd::msit_command
