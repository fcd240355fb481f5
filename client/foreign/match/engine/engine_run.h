// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/match/engine/engine_table.h"
#include "client/foreign/match/facts.h"

namespace msitd::match {

// The document in which hooks describe the modules of a model.
inline constexpr std::string_view kModuleTreeDocument = "module_tree.json";

// A module, as its run describes it.
struct EngineModule {
  std::string module_class;  // Without its path.
  std::map<std::string, std::vector<int64_t>> parameters;
};

// The statements of a run about its engine.
struct EngineRun {
  // Null if the classes of the modules belong to no engine with a table.
  const EngineTable* table = nullptr;
  // Empty if unknown.
  std::string version;
  // By op.
  std::map<std::string, EngineModule, std::less<>> modules;
  // Whole numbers in the configuration of the model.
  std::map<std::string, int64_t, std::less<>> config;
};

// Reads the documents of a run. They are untrusted: one that is not valid is
// ignored. If no document names an engine, the label `source` of the run can.
EngineRun ReadEngineRun(const RunFacts& run);

// Returns the name of the engine that recorded a run with these documents, as
// in its table; empty if there is none.
std::string EngineOf(const std::vector<TextFile>& files);

// Sizes by which fused tensors are divided, by name:
// - `q`, `kv`: the lengths of all query heads and of all key heads
// - `head`: the length of a head
// - `groups`: the number of key heads
// - `per_group`: the number of query heads for each of them
// - `q_lora`, `kv_a`: the lengths of the first projections of multi-head latent
//   attention
// - `o_in`: the length of the input of o_proj
using EngineSizes = std::map<std::string, int64_t, std::less<>>;

// Returns the sizes that either run states. A size that is not known is absent.
EngineSizes SizesOf(const EngineRun& run, const EngineRun& other);

// Returns the number of ranks that share each layer: 1 if a rank has all of it,
// or if it is not known.
int RanksOfLayer(const RunFacts& facts, const EngineRun& run,
                 const EngineSizes& sizes);

}  // namespace msitd::match
