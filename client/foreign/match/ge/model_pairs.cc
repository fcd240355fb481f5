// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/ge/model_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "client/foreign/match/ge/ge_names.h"
#include "client/foreign/match/limits.h"

namespace msitd::match {
namespace {

using Number = std::optional<uint64_t>;
using Place = std::optional<size_t>;

bool HasNumber(const Model& model) { return model.graph.has_value(); }
bool IsNumbered(const GeGraph& graph) { return graph.number.has_value(); }

// Returns the position of the largest count, if it is unique and not 0.
Place PlaceOfMost(const std::vector<size_t>& counts) {
  const auto most = std::max_element(counts.begin(), counts.end());
  if (most == counts.end() || *most == 0 ||
      std::count(counts.begin(), counts.end(), *most) > 1) {
    return std::nullopt;
  }
  return static_cast<size_t>(most - counts.begin());
}

// Returns how many ops of a model a text contains; fused ops count if their
// parts are in it.
size_t CountKnown(const Model& model, const NameParts& parts) {
  return static_cast<size_t>(std::count_if(
      model.names.begin(), model.names.end(),
      [&parts](std::string_view name) { return !parts.Split(name).empty(); }));
}

// Returns how many nodes of an FX graph a text names.
size_t CountNodes(const Model& fx, const GeGraph& graph) {
  std::set<std::string_view> nodes;
  for (const GraphOp& op : graph.ops) {
    for (const FxTensor& tensor : op.fx_tensors) {
      if (fx.Has(tensor.node)) nodes.insert(tensor.node);
    }
  }
  return nodes.size();
}

// Adds a note for each model for which `other` is null.
template <typename Other>
void NoteUnknown(const std::vector<Model>& models,
                 const std::vector<const Other*>& others, std::string_view what,
                 MappingBuilder& builder) {
  size_t count = 0;
  std::string names;
  for (size_t i = 0; i < models.size(); ++i) {
    if (others[i] != nullptr || ++count > kExamplesMax) continue;
    names += count > 1 ? ", " : "";
    names += models[i].prefix.empty() ? "the only one" : models[i].prefix;
  }
  if (count == 0) return;
  builder.Note(fmt::format("{} of {} models of GE: {} is unknown ({}{})", count,
                           models.size(), what, names,
                           count > kExamplesMax ? ", ..." : ""));
}

// Returns the text for a model if one of the two has no number: the only text
// that contains most of its ops.
Place TextByOps(const Model& model, const std::vector<GeGraph>& graphs,
                const std::vector<NameParts>& parts) {
  std::vector<size_t> counts;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const bool is_other = HasNumber(model) && IsNumbered(graphs[i]);
    counts.push_back(is_other ? 0 : CountKnown(model, parts[i]));
  }
  return PlaceOfMost(counts);
}

// Assigns texts to models without a number. A text that two models choose is
// assigned to neither.
void AssignByOps(const std::vector<Model>& models,
                 const std::vector<GeGraph>& graphs,
                 std::vector<const GeGraph*>& out) {
  std::vector<NameParts> parts;
  for (const GeGraph& graph : graphs) parts.push_back(PartsOf(&graph));
  std::map<size_t, std::vector<size_t>> choosers;
  for (size_t i = 0; i < models.size(); ++i) {
    if (out[i] != nullptr) continue;
    const Place text = TextByOps(models[i], graphs, parts);
    if (text.has_value()) choosers[*text].push_back(i);
  }
  for (const auto& [text, places] : choosers) {
    if (places.size() == 1) out[places.front()] = &graphs[text];
  }
}

Number GraphNumberOf(const Model& model, const GeGraph* text) {
  if (model.graph.has_value() || text == nullptr) return model.graph;
  return text->number;
}

// The positions of the models with each number, in order.
std::map<uint64_t, std::vector<size_t>> PlacesByNumber(
    const std::vector<Model>& models) {
  std::map<uint64_t, std::vector<size_t>> out;
  for (size_t i = 0; i < models.size(); ++i) {
    out[models[i].graph.value_or(0)].push_back(i);
  }
  return out;
}

// Pairs one by one, if the numbers of models are equal.
std::vector<const Model*> ByPlace(const std::vector<Model>& goldens,
                                  const std::vector<Model>& targets) {
  std::vector<const Model*> out(targets.size(), nullptr);
  for (size_t i = 0; goldens.size() == targets.size() && i < out.size(); ++i) {
    out[i] = &goldens[i];
  }
  return out;
}

std::vector<const Model*> FxAsMsit(const std::vector<Model>& fx,
                                   const std::vector<Model>& ge) {
  if (fx.size() == 1) return {ge.size(), &fx.front()};
  return ByPlace(fx, ge);
}

std::vector<const Model*> FxByNumber(const std::vector<Model>& fx,
                                     const std::vector<Number>& numbers) {
  std::vector<const Model*> out;
  for (const Number& number : numbers) {
    const auto found =
        std::find_if(fx.begin(), fx.end(), [&number](const Model& model) {
          return number.has_value() && model.graph == number;
        });
    out.push_back(found == fx.end() ? nullptr : &*found);
  }
  return out;
}

// FX graphs without numbers, in the order of the models' numbers.
std::vector<const Model*> FxByPlace(const std::vector<Model>& fx,
                                    const std::vector<Number>& numbers) {
  std::vector<const Model*> out(numbers.size(), nullptr);
  std::set<Number> order(numbers.begin(), numbers.end());
  if (fx.size() != numbers.size() || order.size() != numbers.size() ||
      order.contains(std::nullopt)) {
    return out;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = &fx[static_cast<size_t>(
        std::distance(order.begin(), order.find(numbers[i])))];
  }
  return out;
}

// An FX graph belongs to the only text that names most of its nodes.
std::vector<const Model*> ByNodes(const Model& fx,
                                  const std::vector<GeGraph>& texts,
                                  const std::vector<const GeGraph*>& graphs) {
  std::vector<const Model*> out(graphs.size(), nullptr);
  std::vector<size_t> counts;
  for (const GeGraph& text : texts) counts.push_back(CountNodes(fx, text));
  const Place most = PlaceOfMost(counts);
  for (size_t i = 0; most.has_value() && i < out.size(); ++i) {
    if (graphs[i] == &texts[*most]) out[i] = &fx;
  }
  return out;
}

}  // namespace

std::vector<const GeGraph*> AssignGraphs(const std::vector<Model>& models,
                                         const std::vector<GeGraph>& graphs,
                                         const MatchOptions& options,
                                         MappingBuilder& builder) {
  std::vector<const GeGraph*> out(models.size(), nullptr);
  if (graphs.empty()) return out;
  const bool has_number = std::any_of(models.begin(), models.end(), HasNumber);
  const bool has_text = std::any_of(graphs.begin(), graphs.end(), IsNumbered);
  // A run with one graph may omit its name.
  const bool is_alone = models.size() == 1 && graphs.size() == 1;
  const bool is_by_place =
      models.size() == graphs.size() &&
      (is_alone ? !has_number || !has_text : !has_number && !has_text);
  if (is_by_place || options.is_compat) {
    for (size_t i = 0; i < std::min(out.size(), graphs.size()); ++i) {
      out[i] = &graphs[i];
    }
  } else {
    for (size_t i = 0; i < out.size(); ++i) {
      const auto found =
          std::find_if(graphs.begin(), graphs.end(), [&](const GeGraph& graph) {
            return HasNumber(models[i]) && graph.number == models[i].graph;
          });
      if (found != graphs.end()) out[i] = &*found;
    }
    AssignByOps(models, graphs, out);
  }
  NoteUnknown(models, out, "the text of its graph", builder);
  return out;
}

std::vector<const Model*> PairModels(const std::vector<Model>& goldens,
                                     const std::vector<Model>& targets,
                                     const MatchOptions& options,
                                     MappingBuilder& builder) {
  const bool is_by_number =
      !options.is_compat &&
      std::all_of(goldens.begin(), goldens.end(), HasNumber) &&
      std::all_of(targets.begin(), targets.end(), HasNumber);
  std::vector<const Model*> out(targets.size(), nullptr);
  if (is_by_number) {
    const auto of_golden = PlacesByNumber(goldens);
    for (const auto& [number, places] : PlacesByNumber(targets)) {
      const auto others = of_golden.find(number);
      if (others == of_golden.end() || others->second.size() != places.size()) {
        continue;
      }
      for (size_t i = 0; i < places.size(); ++i) {
        out[places[i]] = &goldens[others->second[i]];
      }
    }
  } else {
    out = ByPlace(goldens, targets);
  }
  NoteUnknown(targets, out, "the golden model", builder);
  return out;
}

std::vector<const Model*> PairFxGraphs(
    const std::vector<Model>& fx, const std::vector<Model>& ge,
    const std::vector<GeGraph>& texts,
    const std::vector<const GeGraph*>& graphs, const MatchOptions& options,
    MappingBuilder& builder) {
  std::vector<Number> numbers;
  for (size_t i = 0; i < ge.size(); ++i) {
    numbers.push_back(GraphNumberOf(ge[i], graphs[i]));
  }
  const bool has_number =
      std::any_of(numbers.begin(), numbers.end(),
                  [](const Number& number) { return number.has_value(); });
  std::vector<const Model*> out;
  if (options.is_compat) {
    out = FxAsMsit(fx, ge);
  } else if (std::any_of(fx.begin(), fx.end(), HasNumber)) {
    out = has_number ? FxByNumber(fx, numbers) : ByPlace(fx, ge);
  } else if (fx.size() == 1 && (ge.size() > 1 || texts.size() > 1)) {
    out = ByNodes(fx.front(), texts, graphs);
  } else {
    out =
        has_number && ge.size() > 1 ? FxByPlace(fx, numbers) : ByPlace(fx, ge);
  }
  NoteUnknown(ge, out, "its FX graph", builder);
  return out;
}

}  // namespace msitd::match
