// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/match/facts.h"
#include "client/match/graph_text.h"
#include "client/match/mapping.h"

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

  bool Has(std::string_view name) const { return by_name.contains(name); }
};

// Takes the models of a run apart, in the order of their numbers. The facts
// must outlive them.
std::vector<Model> ModelsOf(const RunFacts& run);

// True for the name of a file that GraphsOf reads.
bool IsGraphFile(std::string_view file);

// Reads the graphs that GE wrote before it optimized them, in the order of
// their numbers. Of the graphs of several ranks or processes, the lowest one
// that has an op counts. What cannot be read is noted.
std::vector<GeGraph> GraphsOf(const RunFacts& run, MappingBuilder& builder);

// Chooses a graph for each model: the one at its place if there are as many,
// else the one that has most of its ops. Null if there is none.
std::vector<const GeGraph*> AssignGraphs(const std::vector<Model>& models,
                                         const std::vector<GeGraph>& graphs);

}  // namespace msitd::match
