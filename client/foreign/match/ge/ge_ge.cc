// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/ge/ge_ge.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/foreign/match/arguments.h"
#include "client/foreign/match/ge/ge_names.h"
#include "client/foreign/match/ge/model_pairs.h"
#include "client/foreign/match/ge/models.h"

namespace msitd::match {
namespace {

using Strings = std::vector<std::string_view>;

constexpr std::string_view kSameName = "ops of the same name";
constexpr LeftReason kConversion{kConversionReason, /*is_expected=*/true};
constexpr LeftReason kNoCounterpart{
    "the golden run has no op with its name or with the names of its parts"};
constexpr std::string_view kPartMissing =
    "the golden run lacks the op that is fused into it";
constexpr LeftReason kTargetPartMissing{
    "the target run lacks the op that is fused into it"};
constexpr LeftReason kNoGraph{
    "no graph shows which inputs from outside its ops have",
    /*is_expected=*/true};
constexpr LeftReason kOtherInputs{"its ops have other inputs than it has"};
constexpr LeftReason kNoArgument{
    "no argument of the other op corresponds to it"};
constexpr LeftReason kFused{"inside a fused op", /*is_expected=*/true};
constexpr LeftReason kNoModel{"its golden model is unknown"};
constexpr LeftReason kNoText{kNoTextReason};
constexpr LeftReason kNoTarget{"the target run has no such op"};
constexpr LeftReason kNoOtherSide{"its counterpart was not recorded"};
constexpr std::string_view kSelf = "its input next to its output";
constexpr LeftReason kNoConversion{
    "only ops inserted by GE are compared with themselves",
    /*is_expected=*/true};

// An external input of a part.
struct OuterInput {
  std::string part;
  // The op of the part in the run that has it as a separate op, and its input;
  // nothing if they were not recorded.
  std::optional<Slot> slot;
  size_t position = 0;
  const GraphEdge* edge = nullptr;
};

// Removes duplicates. Parts that consume the same tensor may share one input of
// the fused op.
std::vector<OuterInput> Once(const std::vector<OuterInput>& inputs) {
  std::set<std::pair<std::string_view, int64_t>> seen;
  std::vector<OuterInput> out;
  for (const OuterInput& input : inputs) {
    if (seen.emplace(input.edge->producer, input.edge->output).second) {
      out.push_back(input);
    }
  }
  return out;
}

class ModelMatcher {
 public:
  // `is_graph_lost`: `graph` is null although the run has graphs.
  ModelMatcher(const Model& golden, const Model& target, const GeGraph* graph,
               bool is_graph_lost, const MatchOptions& options,
               MappingBuilder& builder)
      : golden_(golden),
        target_(target),
        graph_(graph),
        put_in_reason_(is_graph_lost ? kNoText : kConversion),
        no_graph_reason_(is_graph_lost ? kNoText : kNoGraph),
        parts_(AllNames(golden, graph)),
        target_parts_(AllNames(target, graph)),
        options_(options),
        builder_(builder) {}

  void Match() {
    // Before the ops of the target, whose parts these may use.
    for (const std::string_view name : golden_.names) MatchFusedGolden(name);
    for (const std::string_view name : target_.names) MatchOp(name);
    for (const auto& [name, op] : golden_.by_name) {
      if (IsPutIn(name)) builder_.LeaveGoldenOp(op, put_in_reason_);
    }
  }

 private:
  static NameParts AllNames(const Model& model, const GeGraph* graph) {
    if (graph != nullptr) return PartsOf(graph);
    return NameParts(model.names);
  }
  const OpFacts& golden(size_t op) const { return builder_.golden().ops[op]; }
  const OpFacts& target(size_t op) const { return builder_.target().ops[op]; }
  // Returns true for a conversion that is not part of the model itself.
  bool IsPutIn(std::string_view name) const {
    return IsConversion(name) &&
           (graph_ == nullptr || parts_.Split(name).empty());
  }
  static std::optional<size_t> Find(const Model& model, std::string_view name) {
    const auto found = model.by_name.find(name);
    if (found == model.by_name.end()) return std::nullopt;
    return found->second;
  }
  std::optional<size_t> FindGolden(std::string_view name) const {
    return Find(golden_, name);
  }
  MappingBuilder::Calls CallsOf(size_t golden_op, size_t target_op) const {
    const bool has_several =
        golden(golden_op).call_count > 1 || target(target_op).call_count > 1;
    if (!options_.is_compat || !has_several) return {};
    return {golden(golden_op).largest_call, target(target_op).largest_call};
  }

  void MatchOp(std::string_view name);
  void MatchSame(size_t golden_op, size_t op);
  // Pairs a golden op whose parts are separate ops in the target.
  void MatchFusedGolden(std::string_view name);
  void MatchFusedGoldenInputs(size_t golden_op, const Strings& parts);
  void MatchFused(size_t op, const Strings& parts);
  void MatchFusedOutputs(size_t op, const Strings& parts);
  void MatchFusedInputs(size_t op, const Strings& parts);
  void MatchFusedAsMsit(size_t op, const Strings& parts);
  // Returns the external inputs of the parts of a fused op, in the run of the
  // parts.
  std::vector<OuterInput> OuterInputsOf(const Strings& parts,
                                        const Model& model,
                                        const RunFacts& run) const;

  const Model& golden_;
  const Model& target_;
  const GeGraph* const graph_;
  // The reasons for ops that GE inserted, and for inputs of fused ops without a
  // graph.
  const LeftReason& put_in_reason_;
  const LeftReason& no_graph_reason_;
  const NameParts parts_;
  const NameParts target_parts_;
  const MatchOptions& options_;
  MappingBuilder& builder_;
};

void ModelMatcher::MatchOp(std::string_view name) {
  const size_t op = target_.by_name.at(name);
  if (const auto same = FindGolden(name)) {
    MatchSame(*same, op);
    return;
  }
  const Strings parts =
      options_.is_compat ? parts_.SplitGreedily(name,
                                                [this](std::string_view other) {
                                                  return target_.Has(other) ||
                                                         golden_.Has(other);
                                                })
                         : parts_.Split(name);
  if (parts.size() > 1) {
    MatchFused(op, parts);
  } else if (IsPutIn(name)) {
    builder_.LeaveTargetOp(op, put_in_reason_);
  } else {
    builder_.LeaveTargetOp(op, kNoCounterpart);
  }
}

void ModelMatcher::MatchSame(size_t golden_op, size_t op) {
  const auto calls = CallsOf(golden_op, op);
  for (const Io io : {Io::kInput, Io::kOutput}) {
    const auto inner = ArgumentsOf(golden(golden_op), io);
    const auto outer = ArgumentsOf(target(op), io);
    const Alignment pairs =
        options_.is_compat ? Zip(inner.size(), outer.size())
                           : Align(golden(golden_op), inner, target(op), outer);
    for (const auto& [i, j] : pairs) {
      builder_.Pair({golden_op, inner[i]}, {op, outer[j]}, kSameName, calls);
    }
  }
  builder_.LeaveTargetOp(op, kNoArgument);
  builder_.LeaveGoldenOp(golden_op, kNoArgument);
}

void ModelMatcher::MatchFusedGolden(std::string_view name) {
  if (options_.is_compat || Find(target_, name).has_value()) return;
  const Strings parts = target_parts_.Split(name);
  const bool has_any =
      std::any_of(parts.begin(), parts.end(), [this](std::string_view part) {
        return Find(target_, part).has_value();
      });
  if (parts.size() < 2 || !has_any) return;
  const size_t golden_op = *FindGolden(name);
  const auto inner = ArgumentsOf(golden(golden_op), Io::kOutput);
  if (const auto last = Find(target_, parts.back())) {
    const auto outer = ArgumentsOf(target(*last), Io::kOutput);
    const std::string reason =
        fmt::format("output of {}, the last op in it", parts.back());
    for (const auto& [i, j] :
         Align(golden(golden_op), inner, target(*last), outer)) {
      builder_.Pair({golden_op, inner[i]}, {*last, outer[j]}, reason);
    }
    for (const size_t i : outer) builder_.LeaveTarget({*last, i}, kNoArgument);
  } else {
    for (const size_t i : inner) {
      builder_.LeaveGolden({golden_op, i}, kTargetPartMissing, parts.back());
    }
  }
  MatchFusedGoldenInputs(golden_op, parts);
  for (const std::string_view part : parts) {
    if (const auto outer = Find(target_, part)) {
      builder_.LeaveTargetOp(*outer, kFused, name);
    }
  }
  builder_.LeaveGoldenOp(golden_op, kNoArgument);
}

void ModelMatcher::MatchFusedGoldenInputs(size_t golden_op,
                                          const Strings& parts) {
  const auto inputs = ArgumentsOf(golden(golden_op), Io::kInput);
  if (graph_ == nullptr) {
    for (const size_t i : inputs) {
      builder_.LeaveGolden({golden_op, i}, no_graph_reason_);
    }
    return;
  }
  const std::vector<OuterInput> outer =
      OuterInputsOf(parts, target_, builder_.target());
  const std::vector<OuterInput> once = Once(outer);
  if (outer.size() != inputs.size() && once.size() != inputs.size()) {
    for (const size_t i : inputs) {
      builder_.LeaveGolden({golden_op, i}, kOtherInputs);
    }
    for (const OuterInput& input : outer) {
      if (input.slot.has_value()) {
        builder_.LeaveTarget(*input.slot, kNoArgument);
      }
    }
    return;
  }
  const bool is_each = outer.size() == inputs.size();
  for (size_t i = 0; i < outer.size(); ++i) {
    // An input of the fused op may be an input of several parts.
    const auto place = std::find_if(
        once.begin(), once.end(), [&outer, i](const OuterInput& other) {
          return other.edge->producer == outer[i].edge->producer &&
                 other.edge->output == outer[i].edge->output;
        });
    const size_t input =
        inputs[is_each ? i : static_cast<size_t>(place - once.begin())];
    if (outer[i].slot.has_value()) {
      builder_.Pair({golden_op, input}, *outer[i].slot,
                    fmt::format("input of {} in it", outer[i].part));
    } else {
      builder_.LeaveGolden({golden_op, input}, kTargetPartMissing,
                           outer[i].part);
    }
  }
}

void ModelMatcher::MatchFused(size_t op, const Strings& parts) {
  if (options_.is_compat) {
    MatchFusedAsMsit(op, parts);
  } else {
    MatchFusedOutputs(op, parts);
    MatchFusedInputs(op, parts);
  }
  for (const std::string_view part : parts) {
    if (const auto inner = FindGolden(part)) {
      builder_.LeaveGoldenOp(*inner, kFused, target(op).op);
    }
  }
}

void ModelMatcher::MatchFusedOutputs(size_t op, const Strings& parts) {
  const std::string last(parts.back());
  const auto outputs = ArgumentsOf(target(op), Io::kOutput);
  const auto inner = FindGolden(last);
  if (!inner.has_value()) {
    for (const size_t i : outputs) {
      builder_.PairWithAbsent({op, i},
                              {.op = std::string(golden_.prefix) + last,
                               .io = Io::kOutput,
                               .index = target(op).tensors[i].index},
                              kPartMissing);
    }
    return;
  }
  const auto others = ArgumentsOf(golden(*inner), Io::kOutput);
  const std::string reason =
      fmt::format("output of {}, the last op in it", last);
  for (const auto& [i, j] :
       Align(golden(*inner), others, target(op), outputs)) {
    builder_.Pair({*inner, others[i]}, {op, outputs[j]}, reason);
  }
  for (const size_t i : outputs) builder_.LeaveTarget({op, i}, kNoArgument);
  for (const size_t i : others) builder_.LeaveGolden({*inner, i}, kNoArgument);
}

std::vector<OuterInput> ModelMatcher::OuterInputsOf(const Strings& parts,
                                                    const Model& model,
                                                    const RunFacts& run) const {
  const std::set<std::string_view> names(parts.begin(), parts.end());
  std::vector<OuterInput> out;
  for (const std::string_view part : parts) {
    const GraphOp* const op = graph_->Find(part);
    if (op == nullptr) continue;
    const auto inner = Find(model, part);
    std::vector<size_t> inputs;
    if (inner.has_value()) inputs = ArgumentsOf(run.ops[*inner], Io::kInput);
    size_t position = 0;
    for (const GraphEdge& edge : op->inputs) {
      if (edge.output < 0) continue;
      const size_t at = position++;
      // Positions after the recorded inputs had no tensor.
      if (inner.has_value() && at >= inputs.size()) break;
      if (names.contains(edge.producer)) continue;
      OuterInput input{std::string(part), std::nullopt, at, &edge};
      if (inner.has_value()) input.slot = Slot{*inner, inputs[at]};
      out.push_back(std::move(input));
    }
  }
  return out;
}

void ModelMatcher::MatchFusedInputs(size_t op, const Strings& parts) {
  const auto inputs = ArgumentsOf(target(op), Io::kInput);
  if (graph_ == nullptr) {
    for (const size_t i : inputs)
      builder_.LeaveTarget({op, i}, no_graph_reason_);
    return;
  }
  std::vector<OuterInput> outer =
      OuterInputsOf(parts, golden_, builder_.golden());
  if (outer.size() != inputs.size()) outer = Once(outer);
  if (outer.size() != inputs.size()) {
    for (const size_t i : inputs) builder_.LeaveTarget({op, i}, kOtherInputs);
    for (const OuterInput& input : outer) {
      if (input.slot.has_value()) {
        builder_.LeaveGolden(*input.slot, kNoArgument);
      }
    }
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OuterInput& input = outer[i];
    if (input.slot.has_value()) {
      builder_.Pair(*input.slot, {op, inputs[i]},
                    fmt::format("input of {} in it", input.part));
    } else {
      builder_.PairWithAbsent({op, inputs[i]},
                              {.op = std::string(golden_.prefix) + input.part,
                               .io = Io::kInput,
                               .index = std::to_string(input.position)},
                              kPartMissing);
    }
  }
}

// Ignores parts that are missing, for any reason.
void ModelMatcher::MatchFusedAsMsit(size_t op, const Strings& parts) {
  std::vector<OuterInput> outer;
  if (graph_ != nullptr)
    outer = OuterInputsOf(parts, golden_, builder_.golden());
  const auto inputs = ArgumentsOf(target(op), Io::kInput);
  if (graph_ == nullptr) {
    for (const size_t i : inputs)
      builder_.LeaveTarget({op, i}, no_graph_reason_);
  }
  for (const auto& [i, j] : Zip(outer.size(), inputs.size())) {
    if (!outer[i].slot.has_value()) continue;
    builder_.Pair(*outer[i].slot, {op, inputs[j]}, kFused.text);
  }
  const auto last = std::find_if(
      parts.rbegin(), parts.rend(),
      [this](std::string_view part) { return FindGolden(part).has_value(); });
  if (last == parts.rend()) return;
  const size_t inner = *FindGolden(*last);
  const auto others = ArgumentsOf(golden(inner), Io::kOutput);
  const auto outputs = ArgumentsOf(target(op), Io::kOutput);
  for (const auto& [i, j] : Zip(others.size(), outputs.size())) {
    builder_.Pair({inner, others[i]}, {op, outputs[j]}, kFused.text,
                  CallsOf(inner, op));
  }
  for (const size_t i : others) builder_.LeaveGolden({inner, i}, kNoArgument);
}

}  // namespace

absl::StatusOr<Mapping> MatchGeWithGe(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MatchOptions& options) {
  MappingBuilder builder(golden, target);
  std::vector<GeGraph> graphs = GraphsOf(target, builder);
  if (graphs.empty()) graphs = GraphsOf(golden, builder);
  if (graphs.empty()) {
    builder.Note(
        "no run has a graph, so only the outputs of fused ops are compared");
  }
  const std::vector<Model> goldens = ModelsOf(golden);
  const std::vector<Model> targets = ModelsOf(target);
  const auto assigned = AssignGraphs(targets, graphs, options, builder);
  const auto others = PairModels(goldens, targets, options, builder);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (others[i] != nullptr) {
      const bool is_graph_lost = assigned[i] == nullptr && !graphs.empty();
      ModelMatcher(*others[i], targets[i], assigned[i], is_graph_lost, options,
                   builder)
          .Match();
      continue;
    }
    for (const auto& [name, op] : targets[i].by_name) {
      builder.LeaveTargetOp(op, kNoModel);
    }
  }
  return builder.Finish(kNoTarget, kNoCounterpart);
}

absl::StatusOr<Mapping> MatchConversions(const RunFacts& run,
                                         const MatchOptions& options) {
  MappingBuilder builder(run, run);
  const std::vector<GeGraph> graphs = GraphsOf(run, builder);
  const std::vector<Model> models = ModelsOf(run);
  const auto assigned = AssignGraphs(models, graphs, options, builder);
  for (size_t i = 0; i < models.size(); ++i) {
    const NameParts parts = PartsOf(assigned[i]);
    for (const auto& [name, op] : models[i].by_name) {
      if (!IsConversion(name) || !parts.Split(name).empty()) continue;
      if (assigned[i] == nullptr && !graphs.empty()) {
        builder.LeaveTargetOp(op, kNoText);
        continue;
      }
      const auto inputs = ArgumentsOf(run.ops[op], Io::kInput);
      const auto outputs = ArgumentsOf(run.ops[op], Io::kOutput);
      for (const auto& [j, k] :
           Align(run.ops[op], inputs, run.ops[op], outputs)) {
        builder.Pair({op, inputs[j]}, {op, outputs[k]}, kSelf);
      }
      for (const size_t j : inputs) builder.LeaveGolden({op, j}, kNoOtherSide);
      for (const size_t k : outputs) builder.LeaveTarget({op, k}, kNoOtherSide);
    }
  }
  return builder.Finish(kNoConversion, kNoConversion);
}

}  // namespace msitd::match
