// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/match/match_options.h"
#include "client/foreign/match/torch/module_tree.h"
#include "protos/base/tensor_key.h"

namespace msitd::match {

// Tensors of a module: all of a side, or one.
struct ModulePlace {
  Io io = Io::kOutput;
  std::string index = {};  // Empty: all.

  friend auto operator<=>(const ModulePlace&, const ModulePlace&) = default;
};

// A module of a torch model and an operation of the acceleration library whose
// tensors should be equal. If both models are of the same kind, `atb` is the
// other one.
struct ModulePair {
  size_t torch = 0;
  ModulePlace torch_place = {};
  size_t atb = 0;
  ModulePlace atb_place = {};

  friend auto operator<=>(const ModulePair&, const ModulePair&) = default;
};

// Returns the modules of a torch model that msit compares with those of another
// model at the level between layers and APIs: the mlp of each layer, then its
// attention.
std::vector<size_t> ModulesOfLayers(const ModuleTree& tree,
                                    const std::vector<size_t>& layers);

// The message if two models have no layers to pair. ModuleTree::Layers has the
// rule.
inline constexpr std::string_view kFewLayers =
    "no layers were found: they are most of more than 10 modules in one "
    "module, or at least 2 numbered modules of one type that contain modules, "
    "as many on both sides. Compare level api (-cl api)";

// The layers of two models by which their modules are paired.
struct LayersOfModels {
  std::vector<size_t> torch;
  std::vector<size_t> atb;
};

// Returns the layers of both models. `finds_few`: if neither model has layers
// by the rule of msit, which needs more than ten, returns those of
// ModuleTree::FewLayers, provided that both models have the same number of
// them.
LayersOfModels FindLayers(const ModuleTree& torch, const ModuleTree& atb,
                          bool finds_few);

// Types of operations by the corresponding types of modules. Either may be
// followed by `_` and the name of a tensor.
using OpMapping = std::map<std::string, std::vector<std::string>>;

// Parses an `op_mapping_file.json`: an object from types to a type or a list of
// types. Errors: INVALID_ARGUMENT.
absl::StatusOr<OpMapping> ParseOpMapping(std::string_view text);

// Pairs modules as msit does: by their positions in the layers, their types and
// their names. Each pair occurs once, in the order of the operations.
//
// Errors: RESOURCE_EXHAUSTED for more than kModulePairsMax.
absl::StatusOr<std::vector<ModulePair>> PairModules(
    const ModuleTree& torch, const ModuleTree& atb, ModuleLevel level,
    const OpMapping& user, const LayersOfModels& layers);

}  // namespace msitd::match
