// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "client/foreign/match/ge/models.h"
#include "client/foreign/match/graph_text.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

// Pairs models, FX graphs and texts of graphs. A missing counterpart is
// reported as a note, not as an error.
namespace msitd::match {

// The reason for the ops of a model if AssignGraphs has no text for it.
inline constexpr std::string_view kNoTextReason =
    "the text of its graph is unknown";

// Chooses the text of each model: the one with its number. If one of the two
// has no number, the text is the one at its position if neither has a number
// and there are as many texts as models. Otherwise it is the only one that
// contains most of the model's ops and that no other model chooses. The result
// is null if there is no such text. This is noted unless there are no texts at
// all. With `is_compat`, it is the text at its position.
std::vector<const GeGraph*> AssignGraphs(const std::vector<Model>& models,
                                         const std::vector<GeGraph>& graphs,
                                         const MatchOptions& options,
                                         MappingBuilder& builder);

// Chooses the golden model of each target model, both of GE. They are paired by
// the numbers of their graphs, and in order if several have the same number. If
// a model has no number, they are paired in order. The result is null, and
// noted, if the numbers of models differ.
std::vector<const Model*> PairModels(const std::vector<Model>& goldens,
                                     const std::vector<Model>& targets,
                                     const MatchOptions& options,
                                     MappingBuilder& builder);

// Chooses the FX graph of each model of GE. `texts` are those of the run;
// `graphs` are those that AssignGraphs chose. The FX graph is the one with the
// number of the model or of its text. FX graphs without numbers are paired in
// the order of the models if there are as many. A single FX graph belongs to
// the only text that names most of its nodes. The result is null, and noted, if
// there is none. With `is_compat`, numbers are ignored, and a single FX graph
// belongs to all models.
std::vector<const Model*> PairFxGraphs(
    const std::vector<Model>& fx, const std::vector<Model>& ge,
    const std::vector<GeGraph>& texts,
    const std::vector<const GeGraph*>& graphs, const MatchOptions& options,
    MappingBuilder& builder);

}  // namespace msitd::match
