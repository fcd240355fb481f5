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

// A text whose order is that of `text` with its numbers as numbers.
std::string NaturalKey(std::string_view text);

// What is known of the modules of a side by the names of its ops: those of its
// `model_tree.json`, or of a dump of the library alone. Immutable.
class ModuleTypes {
 public:
  explicit ModuleTypes(const DumpSide& side);

  // Empty if it is not known.
  std::string TypeOf(const std::string& op) const;

  // True if the tree says that a module is a layer, or one of those in a layer
  // that msit compares. All is api.
  bool IsOf(const std::string& op, match::ModuleLevel level) const;
  // True if the tree has the module.
  bool Has(const std::string& op) const { return types_.contains(op); }

  // A text by which ops are sorted as msit shows them: by their numbers;
  // modules those of the level first, and all as their tree has them. What
  // modules call is behind them.
  std::string OrderOf(const std::string& op, match::ModuleLevel level) const;

  // Why there are none, or OK.
  const absl::Status& status() const { return status_; }

 private:
  // Modules by their names, with their places.
  using Places = std::map<std::string, size_t, std::less<>>;

  const Places& PlacesOf(match::ModuleLevel level) const;

  absl::Status status_;
  std::map<std::string, std::string> types_;
  Places places_;
  Places layers_;
  Places modules_;
};

// The bytes of the `model_tree.json` of a torch model; empty if there is none.
std::string ModelTreeText(const DumpSide& side);

// A side of the comparison: its tree, and what is known of it.
// Thread-compatible.
struct LevelSide {
  explicit LevelSide(const DumpSide& side) : about(side), types(side) {}

  // Opens the tree and finds out its tokens. The errors of OpenTree.
  absl::Status Open(Logger& log);

  // Leaves other tokens. `has_warm_ups`: the warm-up, too, is compared.
  void Keep(const std::set<int64_t>& kept, bool has_warm_ups);

  // The tensor of a row, and its file: of several cards that of the process
  // which the user names, if it has one.
  TensorPlace PlaceOf(const v1::ComparedTensor& tensor) const;

  // The file of the tensor that a rank has; `key` becomes its key.
  FileIndex::File FileOf(TensorKey& key, int32_t rank) const;

  DumpSide about;
  std::unique_ptr<trees::Tree> tree;
  std::optional<BatchTree> batch;
  ModuleTypes types;
  // Without the warm-up, unless the user asks for it alone.
  std::set<int64_t> tokens;
  bool has_warm_up = false;

 private:
  void FindTokens();
};

}  // namespace msitd::msit_command
