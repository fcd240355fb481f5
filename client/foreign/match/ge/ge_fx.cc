// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/ge/ge_fx.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/foreign/match/arguments.h"
#include "client/foreign/match/ge/ge_names.h"
#include "client/foreign/match/ge/model_pairs.h"
#include "client/foreign/match/ge/models.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using Strings = std::vector<std::string_view>;

constexpr std::string_view kByGraph = "stated in the graph";
constexpr LeftReason kConversion{kConversionReason, /*is_expected=*/true};
constexpr LeftReason kNotInGraph{"not an op of the graph"};
constexpr LeftReason kOnlyBeginning{
    "the graph has only the beginning of its name"};
constexpr LeftReason kNoNode{"the graph names no FX node for it",
                             /*is_expected=*/true};
constexpr LeftReason kNodeMissing{"the FX node was not recorded"};
constexpr LeftReason kNoInput{"no input of the FX node corresponds to it"};
constexpr LeftReason kNoOutput{"the graph names no FX tensor for it",
                               /*is_expected=*/true};
constexpr LeftReason kFused{"inside a fused op", /*is_expected=*/true};
constexpr LeftReason kOpMissing{"its GE op was not recorded"};
constexpr LeftReason kNoTensor{"no tensor of its GE op corresponds to it"};
constexpr LeftReason kScalar{"a scalar, which a GE op may have as an attribute",
                             /*is_expected=*/true};
constexpr LeftReason kNoText{kNoTextReason};
constexpr LeftReason kNoFxGraph{"its FX graph is unknown"};
constexpr LeftReason kNoOp{"the graph names no GE op for it"};

std::optional<size_t> FindTensor(const OpFacts& op, Io io, size_t index) {
  const std::string text = std::to_string(index);
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.tensors[i].io == io && op.tensors[i].index == text) return i;
  }
  return std::nullopt;
}

// An input of a fused op: the input of a part at a position.
struct OuterInput {
  size_t part = 0;
  size_t position = 0;
  const GraphEdge* edge = nullptr;
};

// Returns the number of tensors that the op consumes.
size_t CountEdges(const GraphOp& op) {
  return static_cast<size_t>(
      std::count_if(op.inputs.begin(), op.inputs.end(),
                    [](const GraphEdge& edge) { return edge.output >= 0; }));
}

// Returns the number of inputs that GE cannot convert to attributes. It can
// convert constants.
size_t CountNeeded(const GraphOp& op, const GeGraph& graph) {
  return static_cast<size_t>(std::count_if(
      op.inputs.begin(), op.inputs.end(), [&graph](const GraphEdge& edge) {
        const GraphOp* const producer = graph.Find(edge.producer);
        const bool is_constant =
            producer != nullptr &&
            (producer->type == "Const" || producer->type == "Constant");
        return edge.output >= 0 && !is_constant;
      }));
}

// One model of GE with its FX graph.
class ModelMatcher {
 public:
  ModelMatcher(const Model& fx, const Model& ge, const GeGraph& graph,
               const MatchOptions& options, MappingBuilder& builder)
      : fx_(fx),
        ge_(ge),
        graph_(graph),
        parts_(PartsOf(&graph)),
        options_(options),
        builder_(builder) {}

  void Match() {
    for (const std::string_view name : ge_.names) MatchOp(name);
    LeaveNodes();
  }

 private:
  const OpFacts& golden(size_t op) const { return builder_.golden().ops[op]; }
  const OpFacts& target(size_t op) const { return builder_.target().ops[op]; }

  // Returns the FX op of a node; nothing if it was not recorded.
  std::optional<size_t> FindNode(const std::string& node) const {
    const auto found = fx_.by_name.find(node);
    if (found == fx_.by_name.end()) return std::nullopt;
    return found->second;
  }

  void MatchOp(std::string_view name);
  void MatchSingle(size_t op, const GraphOp& graph_op);
  void MatchFused(size_t op, const Strings& parts);
  void MatchFusedInputs(size_t op, const std::vector<const GraphOp*>& parts);
  void MatchOutputs(size_t op, const GraphOp& graph_op,
                    std::string_view reason);
  void MatchSingleAsMsit(size_t op, const GraphOp& graph_op);
  void MatchFusedAsMsit(size_t op, const GraphOp& first, const GraphOp& last);
  void ZipAsMsit(size_t node, size_t op, Io io);
  // Returns the external inputs of the parts, which are as many as the op has;
  // none if their number differs.
  static std::vector<OuterInput> OuterInputsOf(
      const std::vector<const GraphOp*>& parts, size_t count);
  void PairPart(size_t op, const GraphOp& part, bool is_first,
                const std::vector<size_t>& positions,
                const std::vector<size_t>& tensors);
  // Leaves external inputs of the parts that are not inputs of the fused op.
  void LeaveOuterInputs(const std::vector<const GraphOp*>& parts);
  void LeaveScalars(size_t node, const LeftReason& reason = kScalar);
  void LeaveNodes();
  void LeaveOutput(const GraphOp& graph_op, const FxTensor& tensor);

  const Model& fx_;
  const Model& ge_;
  const GeGraph& graph_;
  const NameParts parts_;
  const MatchOptions& options_;
  MappingBuilder& builder_;
  struct FusedOp {
    std::string_view name;
    bool is_last = false;
  };
  // The fused op that contains a part, and whether the part is its last one.
  std::unordered_map<std::string_view, FusedOp> fused_;
};

void ModelMatcher::MatchOp(std::string_view name) {
  const size_t op = ge_.by_name.at(name);
  const Strings parts =
      options_.is_compat
          ? parts_.SplitGreedily(
                name, [this](std::string_view other) { return ge_.Has(other); })
          : parts_.Split(name);
  if (parts.size() > 1) {
    MatchFused(op, parts);
  } else if (parts.size() == 1 && options_.is_compat) {
    MatchSingleAsMsit(op, *graph_.Find(parts[0]));
  } else if (parts.size() == 1) {
    MatchSingle(op, *graph_.Find(parts[0]));
  } else if (IsConversion(name)) {
    builder_.LeaveTargetOp(op, kConversion);
  } else if (const size_t size = parts_.LongestPrefix(name); size > 0) {
    builder_.LeaveTargetOp(op, kOnlyBeginning, name.substr(0, size));
  } else {
    builder_.LeaveTargetOp(op, kNotInGraph);
  }
}

// The inputs are those of the node of the first recorded tensor.
void ModelMatcher::MatchSingle(size_t op, const GraphOp& graph_op) {
  if (graph_op.fx_tensors.empty()) {
    builder_.LeaveTargetOp(op, kNoNode);
    return;
  }
  MatchOutputs(op, graph_op, kByGraph);
  for (const FxTensor& tensor : graph_op.fx_tensors) {
    const auto node = FindNode(tensor.node);
    if (!node.has_value()) continue;
    const auto inner = ArgumentsOf(golden(*node), Io::kInput);
    const auto outer = ArgumentsOf(target(op), Io::kInput);
    for (const auto& [i, j] : Align(golden(*node), inner, target(op), outer)) {
      builder_.Pair({*node, inner[i]}, {op, outer[j]}, kByGraph);
    }
    for (const size_t i : outer) {
      builder_.LeaveTarget({op, i}, kNoInput, tensor.node);
    }
    // If the op has all inputs of the graph, none are missing.
    const bool has_all = outer.size() >= CountNeeded(graph_op, graph_);
    if (inner.size() > outer.size() && has_all) LeaveScalars(*node);
    return;
  }
  builder_.LeaveTargetOp(op, kNodeMissing, graph_op.fx_tensors[0].node);
}

void ModelMatcher::MatchOutputs(size_t op, const GraphOp& graph_op,
                                std::string_view reason) {
  for (const FxTensor& tensor : graph_op.fx_tensors) {
    const auto output = FindTensor(target(op), Io::kOutput, tensor.ge_output);
    if (!output.has_value()) continue;
    const auto node = FindNode(tensor.node);
    const auto other = node.has_value() ? FindTensor(golden(*node), Io::kOutput,
                                                     tensor.fx_output)
                                        : std::nullopt;
    if (other.has_value()) {
      builder_.Pair({*node, *other}, {op, *output}, reason);
      continue;
    }
    builder_.PairWithAbsent({op, *output},
                            {.op = std::string(fx_.prefix) + tensor.node,
                             .io = Io::kOutput,
                             .index = std::to_string(tensor.fx_output)},
                            kNodeMissing.text);
  }
  for (const size_t i : ArgumentsOf(target(op), Io::kOutput)) {
    builder_.LeaveTarget({op, i}, kNoOutput);
  }
}

void ModelMatcher::MatchFused(size_t op, const Strings& names) {
  std::vector<const GraphOp*> parts;
  for (const std::string_view name : names) {
    parts.push_back(graph_.Find(name));
    fused_.emplace(name, FusedOp{target(op).op, name == names.back()});
  }
  if (options_.is_compat) {
    MatchFusedAsMsit(op, *parts.front(), *parts.back());
    return;
  }
  const GraphOp& last = *parts.back();
  MatchOutputs(op, last,
               fmt::format("output of {}, the last op in it", last.name));
  MatchFusedInputs(op, parts);
  builder_.LeaveTargetOp(op, kNoNode);
}

std::vector<OuterInput> ModelMatcher::OuterInputsOf(
    const std::vector<const GraphOp*>& parts, size_t count) {
  std::set<std::string_view> names;
  for (const GraphOp* part : parts) names.insert(part->name);
  std::vector<OuterInput> all;
  std::vector<OuterInput> once;
  std::set<std::pair<std::string_view, int64_t>> seen;
  for (size_t i = 0; i < parts.size(); ++i) {
    size_t position = 0;
    for (const GraphEdge& edge : parts[i]->inputs) {
      if (edge.output < 0) continue;
      const OuterInput input{i, position++, &edge};
      if (names.contains(edge.producer)) continue;
      all.push_back(input);
      if (seen.emplace(edge.producer, edge.output).second) {
        once.push_back(input);
      }
    }
  }
  if (all.size() == count) return all;
  // Parts that consume the same tensor may share one input.
  if (once.size() == count) return once;
  return {};
}

void ModelMatcher::MatchFusedInputs(size_t op,
                                    const std::vector<const GraphOp*>& parts) {
  const auto inputs = ArgumentsOf(target(op), Io::kInput);
  std::vector<OuterInput> outer = OuterInputsOf(parts, inputs.size());
  if (outer.empty()) {
    // It is only known that the inputs of the first part are first.
    std::vector<size_t> positions;
    for (size_t i = 0; i < inputs.size(); ++i) positions.push_back(i);
    PairPart(op, *parts.front(), /*is_first=*/false, positions, inputs);
  }
  for (size_t part = 0; part < parts.size() && !outer.empty(); ++part) {
    std::vector<size_t> positions;
    std::vector<size_t> tensors;
    for (size_t i = 0; i < outer.size(); ++i) {
      if (outer[i].part != part) continue;
      positions.push_back(outer[i].position);
      tensors.push_back(inputs[i]);
    }
    PairPart(op, *parts[part], part == 0, positions, tensors);
  }
  for (const size_t i : inputs) builder_.LeaveTarget({op, i}, kNoInput);
  LeaveOuterInputs(parts);
}

void ModelMatcher::LeaveOuterInputs(const std::vector<const GraphOp*>& parts) {
  std::set<std::string_view> names;
  for (const GraphOp* part : parts) names.insert(part->name);
  std::set<std::pair<std::string_view, int64_t>> seen;
  for (const GraphOp* part : parts) {
    // The positions of its external inputs among all of its inputs.
    std::vector<size_t> outer;
    size_t position = 0;
    for (const GraphEdge& edge : part->inputs) {
      if (edge.output < 0) continue;
      const size_t at = position++;
      if (names.contains(edge.producer)) continue;
      // Parts that consume the same tensor may share one input.
      if (seen.emplace(edge.producer, edge.output).second) outer.push_back(at);
    }
    if (part->fx_tensors.empty()) continue;
    const auto node = FindNode(part->fx_tensors.front().node);
    if (!node.has_value()) continue;
    const auto inner = ArgumentsOf(golden(*node), Io::kInput);
    if (inner.size() == CountEdges(*part)) {
      for (const size_t at : outer) {
        builder_.LeaveGolden({*node, inner[at]}, kNoTensor, part->name);
      }
      continue;
    }
    // If there are scalars among the inputs, it is unknown which input belongs
    // to which edge.
    const auto paired = static_cast<size_t>(
        std::count_if(inner.begin(), inner.end(), [&](size_t i) {
          return builder_.IsGoldenTaken({*node, i});
        }));
    LeaveScalars(*node, paired < std::min(outer.size(), inner.size())
                            ? kNoTensor
                            : kScalar);
  }
}

// Constants are attributes in GE, but inputs in FX.
void ModelMatcher::LeaveScalars(size_t node, const LeftReason& reason) {
  for (const size_t i : ArgumentsOf(golden(node), Io::kInput)) {
    if (ElementCount(golden(node).tensors[i].shape) == 1) {
      builder_.LeaveGolden({node, i}, reason);
    }
  }
}

// Pairs inputs of a fused op, which correspond to these positions of a part,
// with the inputs of the part's node.
void ModelMatcher::PairPart(size_t op, const GraphOp& part, bool is_first,
                            const std::vector<size_t>& positions,
                            const std::vector<size_t>& tensors) {
  if (part.fx_tensors.empty() || tensors.empty()) return;
  const auto node = FindNode(part.fx_tensors.front().node);
  if (!node.has_value()) return;
  const OpFacts& golden_op = golden(*node);
  const auto inner = ArgumentsOf(golden_op, Io::kInput);
  const std::string reason = fmt::format("input of {} in it", part.name);
  if (inner.size() != CountEdges(part)) {
    for (const auto& [i, j] :
         AlignBySize(golden_op, inner, target(op), tensors)) {
      builder_.Pair({*node, inner[i]}, {op, tensors[j]}, reason);
    }
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (positions[i] >= inner.size()) continue;
    const size_t other = inner[positions[i]];
    const bool fits = ElementCount(golden_op.tensors[other].shape) ==
                      ElementCount(target(op).tensors[tensors[i]].shape);
    if (is_first || fits) {
      builder_.Pair({*node, other}, {op, tensors[i]}, reason);
    }
  }
}

void ModelMatcher::ZipAsMsit(size_t node, size_t op, Io io) {
  const auto inner = ArgumentsByText(golden(node), io);
  const auto outer = ArgumentsOf(target(op), io);
  MappingBuilder::Calls calls;
  if (golden(node).call_count > 1 || target(op).call_count > 1) {
    calls = {golden(node).largest_call, target(op).largest_call};
  }
  // msit cannot read such an op at all.
  const auto by_number = AlignByNumber(golden(node), inner, target(op), outer);
  for (const auto& [i, j] :
       by_number.value_or(Zip(inner.size(), outer.size()))) {
    builder_.Pair({node, inner[i]}, {op, outer[j]}, kByGraph, calls);
  }
}

void ModelMatcher::MatchSingleAsMsit(size_t op, const GraphOp& graph_op) {
  const auto last = std::find_if(
      graph_op.fx_tensors.rbegin(), graph_op.fx_tensors.rend(),
      [this](const FxTensor& tensor) { return FindNode(tensor.node); });
  if (last == graph_op.fx_tensors.rend()) {
    builder_.LeaveTargetOp(
        op, graph_op.fx_tensors.empty() ? kNoNode : kNodeMissing);
    return;
  }
  ZipAsMsit(*FindNode(last->node), op, Io::kInput);
  ZipAsMsit(*FindNode(last->node), op, Io::kOutput);
}

void ModelMatcher::MatchFusedAsMsit(size_t op, const GraphOp& first,
                                    const GraphOp& last) {
  for (const auto& [part, io] :
       {std::pair(&first, Io::kInput), std::pair(&last, Io::kOutput)}) {
    for (const FxTensor& tensor : part->fx_tensors) {
      const auto node = FindNode(tensor.node);
      if (node.has_value()) ZipAsMsit(*node, op, io);
    }
  }
}

// Gives the reason for each unpaired node. An FX node may correspond to several
// GE ops, so first each output is handled, then the rest of the node.
void ModelMatcher::LeaveNodes() {
  for (const GraphOp& graph_op : graph_.ops) {
    for (const FxTensor& tensor : graph_op.fx_tensors) {
      LeaveOutput(graph_op, tensor);
    }
  }
  for (const GraphOp& graph_op : graph_.ops) {
    const auto fused = fused_.find(graph_op.name);
    for (const FxTensor& tensor : graph_op.fx_tensors) {
      const auto node = FindNode(tensor.node);
      if (!node.has_value()) continue;
      if (fused != fused_.end()) {
        builder_.LeaveGoldenOp(*node, kFused, fused->second.name);
      } else if (ge_.Has(graph_op.name)) {
        builder_.LeaveGoldenOp(*node, kNoTensor, graph_op.name);
      } else {
        builder_.LeaveGoldenOp(*node, kOpMissing, graph_op.name);
      }
    }
  }
}

// Handles the output of a node that corresponds to an output of a GE op.
void ModelMatcher::LeaveOutput(const GraphOp& graph_op,
                               const FxTensor& tensor) {
  const auto node = FindNode(tensor.node);
  if (!node.has_value()) return;
  const auto output = FindTensor(golden(*node), Io::kOutput, tensor.fx_output);
  if (!output.has_value()) return;
  const Slot slot{*node, *output};
  const auto fused = fused_.find(graph_op.name);
  if (fused != fused_.end() && !fused->second.is_last) {
    builder_.LeaveGolden(slot, kFused, fused->second.name);
  } else if (fused != fused_.end() || ge_.Has(graph_op.name)) {
    builder_.LeaveGolden(slot, kNoTensor, graph_op.name);
  } else {
    builder_.LeaveGolden(slot, kOpMissing, graph_op.name);
  }
}

// Leaves a model whose text or FX graph is not known.
void LeaveModel(const Model& ge, const GeGraph* text, MappingBuilder& builder) {
  const NameParts parts = PartsOf(text);
  for (const auto& [name, op] : ge.by_name) {
    if (text == nullptr) {
      builder.LeaveTargetOp(op, kNoText);
    } else if (IsConversion(name) && parts.Split(name).empty()) {
      builder.LeaveTargetOp(op, kConversion);
    } else {
      builder.LeaveTargetOp(op, kNoFxGraph);
    }
  }
}

}  // namespace

absl::StatusOr<Mapping> MatchGeWithFx(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MatchOptions& options) {
  MappingBuilder builder(golden, target);
  const std::vector<GeGraph> graphs = GraphsOf(target, builder);
  if (graphs.empty()) {
    return MakeStatus(
        absl::StatusCode::kNotFound,
        "run {} has no graph: it has no attachment dynamo_original_graph_*.txt",
        target.run);
  }
  const std::vector<Model> fx = ModelsOf(golden);
  const std::vector<Model> ge = ModelsOf(target);
  const auto assigned = AssignGraphs(ge, graphs, options, builder);
  const auto nodes = PairFxGraphs(fx, ge, graphs, assigned, options, builder);
  for (size_t i = 0; i < ge.size(); ++i) {
    if (assigned[i] != nullptr && nodes[i] != nullptr) {
      ModelMatcher(*nodes[i], ge[i], *assigned[i], options, builder).Match();
      continue;
    }
    LeaveModel(ge[i], assigned[i], builder);
  }
  return builder.Finish(kNoOp, kNotInGraph);
}

}  // namespace msitd::match
