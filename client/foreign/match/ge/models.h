// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/foreign/match/facts.h"
#include "client/foreign/match/graph_text.h"
#include "client/foreign/match/mapping.h"

namespace msitd::match {

// The ops of one model of a run. If a run has several models, the name of each
// op begins with its model: `graph_1/5/Add`, or `graph_1/add-aten.add.Tensor`.
struct Model {
  // The index in RunFacts::ops by the name of the op without the model. The
  // names belong to the facts.
  std::unordered_map<std::string_view, size_t> by_name;
  // In the order of execution.
  std::vector<std::string_view> names;
  // The part of the full names that is removed.
  std::string_view prefix;
  // The number of its graph: 1 for `graph_1/5/` and `graph_1_0/5/`. Nothing if
  // the name does not contain it.
  std::optional<uint64_t> graph;

  bool Has(std::string_view name) const { return by_name.contains(name); }
};

// Splits a run into its models, in the order of their numbers. The facts must
// outlive them.
std::vector<Model> ModelsOf(const RunFacts& run);

// Returns the number in the name of a model or FX graph: 1 for `graph_1` and
// `graph_1_0`.
std::optional<uint64_t> NumberOfGraph(std::string_view model);

// Returns the number in the name of a file that GraphsOf reads, in any folder.
std::optional<uint64_t> NumberOfGraphFile(std::string_view file);

// Returns true for the name of a file that GraphsOf reads.
bool IsGraphFile(std::string_view file);

// Reads the graphs that GE wrote before it optimized them, in the order of
// their numbers. If several ranks or processes have a graph, the lowest one
// that has an op determines that op. Unreadable files are noted.
std::vector<GeGraph> GraphsOf(const RunFacts& run, MappingBuilder& builder);

}  // namespace msitd::match
