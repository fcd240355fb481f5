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

// The ops of one model of a run. If a run has several, the name of each op
// begins with its model: `graph_1/5/Add`, or `graph_1/add-aten.add.Tensor`.
struct Model {
  // By the name of the op without the model: its number in RunFacts::ops. The
  // names are of the facts.
  std::unordered_map<std::string_view, size_t> by_name;
  // In the order of execution.
  std::vector<std::string_view> names;
  // What is left out of the full names.
  std::string_view prefix;
  // Of its graph: 1 of `graph_1/5/` and `graph_1_0/5/`. Nothing if the name
  // does not say it.
  std::optional<uint64_t> graph;

  bool Has(std::string_view name) const { return by_name.contains(name); }
};

// Takes the models of a run apart, in the order of their numbers. The facts
// must outlive them.
std::vector<Model> ModelsOf(const RunFacts& run);

// The number in the name of a model or FX graph: 1 of `graph_1` and
// `graph_1_0`.
std::optional<uint64_t> NumberOfGraph(std::string_view model);

// The number in the name of a file that GraphsOf reads, wherever it lies.
std::optional<uint64_t> NumberOfGraphFile(std::string_view file);

// True for the name of a file that GraphsOf reads.
bool IsGraphFile(std::string_view file);

// Reads the graphs that GE wrote before it optimized them, in the order of
// their numbers. Of the graphs of several ranks or processes, the lowest one
// that has an op counts. What cannot be read is noted.
std::vector<GeGraph> GraphsOf(const RunFacts& run, MappingBuilder& builder);

}  // namespace msitd::match
