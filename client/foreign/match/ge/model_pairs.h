// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "client/foreign/match/ge/models.h"
#include "client/foreign/match/graph_text.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

// Which models, FX graphs and texts of graphs belong together. What is not
// known is no answer, but a note.
namespace msitd::match {

// Why the ops of a model are left if AssignGraphs has no text for it.
inline constexpr std::string_view kNoTextReason =
    "the text of its graph is not known";

// Chooses the text of each model: the one of its number. Where one of the two
// has none, it is the one at its place if neither has a number and there are as
// many, else the one that alone has most of its ops and that no other model
// chooses. Null if there is none, which is noted unless there are no texts.
// With `is_compat` it is the one at its place.
std::vector<const GeGraph*> AssignGraphs(const std::vector<Model>& models,
                                         const std::vector<GeGraph>& graphs,
                                         const MatchOptions& options,
                                         MappingBuilder& builder);

// Chooses the golden model of each target model, both of GE: by the numbers of
// their graphs, and in their order where several have one number; by their
// order if a model has none. Null, and noted, where there are not as many.
std::vector<const Model*> PairModels(const std::vector<Model>& goldens,
                                     const std::vector<Model>& targets,
                                     const MatchOptions& options,
                                     MappingBuilder& builder);

// Chooses the FX graph of each model of GE. `texts` are those of the run,
// `graphs` those that AssignGraphs chose among them. It is the one of the
// model's number, or of that of its text. FX graphs without numbers are in the
// order of the models' if there are as many; one alone is that of the text that
// alone names most of its nodes. Null, and noted, if there is none. With
// `is_compat` numbers do not count, and one alone is that of all.
std::vector<const Model*> PairFxGraphs(
    const std::vector<Model>& fx, const std::vector<Model>& ge,
    const std::vector<GeGraph>& texts,
    const std::vector<const GeGraph*>& graphs, const MatchOptions& options,
    MappingBuilder& builder);

}  // namespace msitd::match
