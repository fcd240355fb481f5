// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/engine/engine_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "client/foreign/match/engine/engine_shards.h"
#include "protos/base/shape.h"

namespace msitd::match {
namespace {

constexpr std::string_view kRoot = "root";
constexpr std::string_view kSameModule = "the same module";
constexpr std::string_view kPacked =
    "the engine has only a packed copy of the weight";
constexpr std::string_view kUnknownSizes =
    "the sizes of its parts are not known";
constexpr std::string_view kUnfitSizes = "its size is not that of its parts";

// Names under which modules receive the hidden states, if not by position.
constexpr std::string_view kHiddenNames[] = {"hidden_states", "x", "input",
                                             "input_"};

// Returns the side of a forward call to which an io belongs.
Io ForwardOf(Io io) {
  switch (io) {
    case Io::kGradInput:
      return Io::kInput;
    case Io::kGradOutput:
      return Io::kOutput;
    case Io::kGradWeight:
      return Io::kWeight;
    default:
      return io;
  }
}

// Returns the gradient of a side if `like` is a gradient.
Io LikeGradient(Io io, Io like) {
  if (like == ForwardOf(like)) return io;
  return io == Io::kInput    ? Io::kGradInput
         : io == Io::kOutput ? Io::kGradOutput
         : io == Io::kWeight ? Io::kGradWeight
                             : io;
}

std::string Parent(std::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(dot == std::string_view::npos ? "" : path.substr(0, dot));
}

std::string LastPart(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

std::string Child(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

// Returns the number of the layer that a path is in; nothing if it is in none.
std::optional<int64_t> LayerOf(std::string_view path) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!path.starts_with(kLayers)) return std::nullopt;
  int64_t number = 0;
  const char* const begin = path.data() + kLayers.size();
  const auto [end, error] =
      std::from_chars(begin, path.data() + path.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// An op in the names of transformers.
struct CommonOp {
  std::string path;
  const EngineModuleRule* rule = nullptr;
  const OpFacts* facts = nullptr;
};

class PlaceFinder {
 public:
  PlaceFinder(const RunFacts& facts, const EngineRun& run,
              const EngineSizes& sizes, int ranks)
      : facts_(facts), run_(run), sizes_(sizes), ranks_(ranks) {
    for (const OpFacts& op : facts.ops) {
      for (const TensorFacts& tensor : op.tensors) {
        has_packed_ = has_packed_ || (tensor.io == Io::kWeight &&
                                      ElementCount(tensor.shape) == 0);
      }
      last_layer_ =
          std::max(last_layer_, LayerOf(CommonOpOf(op).path).value_or(-1));
    }
  }

  EnginePlaces Find() {
    out_.table = run_.table;
    for (size_t i = 0; i < facts_.ops.size(); ++i) {
      op_ = CommonOpOf(facts_.ops[i]);
      out_.modules.emplace(op_.path, true);
      for (size_t j = 0; j < facts_.ops[i].tensors.size(); ++j) {
        EnginePlaces::Entry entry{
            .slot = {i, j}, .places = {}, .gone = {}, .unfit = {}};
        const TensorFacts& tensor = facts_.ops[i].tensors[j];
        AddPlaces(tensor, entry);
        if (!entry.gone.empty()) {
          out_.gone.emplace(CommonTensor(op_.path, tensor.io, tensor.index),
                            entry.gone);
        }
        out_.entries.push_back(std::move(entry));
      }
    }
    return std::move(out_);
  }

 private:
  CommonOp CommonOpOf(const OpFacts& op) const {
    CommonOp out;
    out.facts = &op;
    std::string_view path = op.op;
    if (path == kRoot) {
      path = "";
    } else if (path.starts_with(kRoot) && path.size() > kRoot.size() &&
               path[kRoot.size()] == '.') {
      path.remove_prefix(kRoot.size() + 1);
    } else {
      // An op that is not of the model, such as a function.
      out.path = fmt::format("/{}", path);
      return out;
    }
    if (run_.table == nullptr) {
      out.path = path;
      return out;
    }
    out.path = ToCommonPath(*run_.table, path);
    const auto module = run_.modules.find(op.op);
    const std::string_view module_class =
        module == run_.modules.end()
            ? std::string_view()
            : std::string_view(module->second.module_class);
    out.rule =
        FindModuleRule(*run_.table, out.path, module_class, run_.version);
    if (out.rule != nullptr && !out.rule->owner.empty()) {
      out.path = Parent(out.path);
    }
    return out;
  }

  // Adds what a tensor of the current op is.
  void AddPlaces(const TensorFacts& tensor, EnginePlaces::Entry& entry) {
    const EngineModuleRule* const rule = op_.rule;
    const Io io = ForwardOf(tensor.io);
    if (rule != nullptr && !rule->gone.empty()) {
      entry.gone = rule->gone;
      return;
    }
    const bool is_weight = io != Io::kInput && io != Io::kOutput;
    if (rule != nullptr && !is_weight && !rule->activations.empty()) {
      entry.gone = rule->activations;
      return;
    }
    const EngineTensorRule* const one = TensorRuleOf(io, tensor.index);
    if (one != nullptr) {
      AddByRule(*one, tensor, entry);
    } else if (is_weight) {
      AddWeight(tensor, io, entry);
    } else if (rule != nullptr && !rule->parts.empty()) {
      AddFused(tensor, io, entry);
    } else {
      AddActivation(tensor, io, entry);
    }
  }

  const EngineTensorRule* TensorRuleOf(Io io, std::string_view index) const {
    if (op_.rule == nullptr) return nullptr;
    for (const EngineTensorRule& one : op_.rule->tensors) {
      if (one.io == io && one.index == index) return &one;
    }
    return nullptr;
  }

  // The tensor as it is in the whole model, with the axes of transformers.
  EngineView ViewOf(const TensorFacts& tensor, Io io) const {
    EngineView view(
        ShapeOfLayer(op_.rule, io, tensor.index, tensor.shape, ranks_));
    const bool is_sequence_first =
        run_.table != nullptr && run_.table->is_sequence_first &&
        (op_.rule == nullptr || !op_.rule->is_batch_first) &&
        (io == Io::kInput || io == Io::kOutput) && tensor.shape.size() >= 3;
    if (is_sequence_first) view.Transpose(0, 1);
    return view;
  }

  EnginePlace PlaceOf(CommonTensor is, EngineView view,
                      std::string reason) const {
    EnginePlace out{.is = std::move(is),
                    .view = std::move(view),
                    .reason = std::move(reason)};
    if (op_.rule != nullptr) {
      out.has_logits = op_.rule->has_logits;
      out.has_vocabulary = op_.rule->has_vocabulary;
    }
    return out;
  }

  // Returns the first of `tensors` that the current op recorded.
  const TensorFacts* FirstOf(
      const std::vector<std::pair<Io, std::string>>& tensors, Io like) const {
    for (const auto& [io, index] : tensors) {
      const auto found = FindTensor(*op_.facts, LikeGradient(io, like), index);
      if (found.has_value()) return &op_.facts->tensors[*found];
    }
    return nullptr;
  }

  void AddByRule(const EngineTensorRule& one, const TensorFacts& tensor,
                 EnginePlaces::Entry& entry) {
    const bool is_gradient = tensor.io != ForwardOf(tensor.io);
    const TensorFacts* const term = FirstOf(one.plus, tensor.io);
    const bool is_gone = one.as_io == Io::kUnspecified ||
                         (one.needs_plus && term == nullptr) ||
                         (one.unless.has_value() &&
                          FirstOf({*one.unless}, Io::kInput) != nullptr) ||
                         (!one.unless_version.empty() &&
                          IsInVersions(run_.version, one.unless_version));
    if (is_gone) {
      entry.gone = one.gone;
      return;
    }
    // The gradient of a sum is that of each of its terms.
    EngineView view = ViewOf(tensor, ForwardOf(tensor.io));
    std::string reason(kSameModule);
    if (term != nullptr && !is_gradient) {
      view.Sum(fmt::format("@{}/{}", IoName(term->io), term->index));
      reason = "the hidden states and the residual";
    }
    if (!one.split.empty()) {
      // Two engines that both have the whole tensor compare all of it.
      entry.places.push_back(PlaceOf({op_.path, tensor.io, "whole"}, view,
                                     std::string(kSameModule)));
      entry.places.back().is_fused = true;
      if (!view.Split(-1, one.split, one.part)) {
        entry.unfit = kUnfitSizes;
        return;
      }
      reason = "a part of a fused tensor";
    }
    if (one.io == Io::kInput && one.module.has_value()) {
      LeaveParts(tensor.io, "0",
                 "the norm before it is part of the projection");
    }
    const std::string module =
        one.module.has_value() ? OtherModule(*one.module) : op_.path;
    entry.places.push_back(
        PlaceOf({module, LikeGradient(one.as_io, tensor.io), one.as_index},
                view, reason));
    if (!one.also.empty()) {
      entry.places.push_back(
          PlaceOf({one.also, LikeGradient(one.as_io, tensor.io), one.as_index},
                  view, reason));
      entry.places.back().is_fallback = true;
    }
    if (one.ends_layer) AddLayerEnd(tensor, std::move(view), entry);
  }

  // States that the parts of the current projection lack a tensor.
  void LeaveParts(Io io, const std::string& index, std::string_view why) {
    for (const EnginePart& part : op_.rule->parts) {
      out_.gone.emplace(
          CommonTensor(Child(Parent(op_.path), part.name), io, index),
          std::string(why));
    }
  }

  // Resolves `of` of a tensor: `^.NAME` is beside the parent of the module.
  std::string OtherModule(const std::string& text) const {
    if (!text.starts_with("^.")) return text;
    return Child(Parent(Parent(op_.path)), text.substr(2));
  }

  // Adds that the sum which a norm returns is the output of a layer.
  void AddLayerEnd(const TensorFacts& tensor, EngineView view,
                   EnginePlaces::Entry& entry) const {
    std::optional<int64_t> layer;
    if (LastPart(op_.path) == "input_layernorm") {
      layer = LayerOf(op_.path);
      if (layer.has_value()) layer = *layer - 1;
    } else if (op_.path == "model.norm") {
      layer = last_layer_;
    }
    if (!layer.has_value() || *layer < 0) return;
    entry.places.push_back(
        PlaceOf({fmt::format("model.layers.{}", *layer), tensor.io, "0"},
                std::move(view), "the residual that the next norm receives"));
    entry.places.back().is_fallback = true;
  }

  void AddWeight(const TensorFacts& tensor, Io io, EnginePlaces::Entry& entry) {
    const EngineModuleRule* const rule = op_.rule;
    // Engines replace weights by copies in the order that their kernels need.
    if (ElementCount(tensor.shape) == 0) {
      LeavePacked(tensor, entry);
      return;
    }
    if (rule != nullptr && io == Io::kWeight) {
      for (const EngineExperts& experts : rule->experts) {
        if (experts.weight == tensor.index) {
          AddExperts(experts, tensor, entry);
          return;
        }
      }
      if (!rule->parts.empty()) {
        AddParts(tensor, io, 0, entry);
        return;
      }
    }
    entry.places.push_back(PlaceOf({op_.path, tensor.io, tensor.index},
                                   ViewOf(tensor, io),
                                   std::string(kSameModule)));
  }

  void LeavePacked(const TensorFacts& tensor, EnginePlaces::Entry& entry) {
    entry.gone = kPacked;
    if (op_.rule != nullptr) LeaveParts(tensor.io, tensor.index, kPacked);
  }

  // Adds the weights of each expert in a tensor of all experts.
  void AddExperts(const EngineExperts& experts, const TensorFacts& tensor,
                  EnginePlaces::Entry& entry) {
    const EngineView all = ViewOf(tensor, Io::kWeight);
    // The kernels of experts keep the shape when they pack.
    if (has_packed_) {
      entry.gone = kPacked;
      out_.gone.emplace(
          CommonTensor(op_.path, tensor.io,
                       experts.is_gate_up ? "gate_up_proj" : "down_proj"),
          entry.gone);
      return;
    }
    const char* const whole = experts.is_gate_up ? "gate_up_proj" : "down_proj";
    entry.places.push_back(
        PlaceOf({op_.path, tensor.io, whole}, all, "all experts"));
    entry.places.back().is_fused = true;
    if (all.shape().size() != 3) return;
    const std::vector<std::string> names =
        experts.is_gate_up ? std::vector<std::string>{"gate_proj", "up_proj"}
                           : std::vector<std::string>{"down_proj"};
    for (int64_t i = 0; i < all.shape()[0]; ++i) {
      for (size_t part = 0; part < names.size(); ++part) {
        EngineView view = all;
        if (!view.Slice(0, i, i + 1) || !view.Flatten(0, 1)) continue;
        if (experts.is_gate_up && !view.Split(0, {1, 1}, part)) continue;
        entry.places.push_back(
            PlaceOf({fmt::format("{}.{}.{}", op_.path, i, names[part]),
                     tensor.io, "weight"},
                    std::move(view), "one of all experts"));
      }
    }
  }

  void AddFused(const TensorFacts& tensor, Io io, EnginePlaces::Entry& entry) {
    if (io == Io::kOutput && tensor.index == "0") {
      AddParts(tensor, io, -1, entry);
      return;
    }
    const bool is_hidden = io == Io::kInput && IsHidden(tensor.index);
    if (!is_hidden) {
      AddActivation(tensor, io, entry);
      return;
    }
    if (tensor.io == Io::kGradInput) {
      entry.gone = "it is the sum of the gradients of its parts";
      LeaveParts(tensor.io, "0",
                 "a fused projection has only the sum of the gradients");
      return;
    }
    const EngineView view = ViewOf(tensor, io);
    entry.places.push_back(
        PlaceOf({op_.path, tensor.io, "0"}, view, std::string(kSameModule)));
    entry.places.back().is_fused = true;
    for (const EnginePart& part : op_.rule->parts) {
      entry.places.push_back(
          PlaceOf({Child(Parent(op_.path), part.name), tensor.io, "0"}, view,
                  "the input of a fused projection"));
    }
  }

  // Adds the parts of a fused tensor along `dim`, and the tensor itself.
  void AddParts(const TensorFacts& tensor, Io io, int dim,
                EnginePlaces::Entry& entry) {
    const EngineView view = ViewOf(tensor, io);
    entry.places.push_back(PlaceOf({op_.path, tensor.io, tensor.index}, view,
                                   std::string(kSameModule)));
    entry.places.back().is_fused = true;
    const std::vector<int64_t> lengths = PartSizes(*op_.rule, sizes_);
    if (lengths.empty()) {
      entry.unfit = kUnknownSizes;
      return;
    }
    const std::vector<int64_t> held = HeldSizes(*op_.rule, sizes_, ranks_);
    const int64_t groups = op_.rule->groups.empty()
                               ? 1
                               : SizeOf(op_.rule->groups, sizes_).value_or(0);
    for (size_t i = 0; i < held.size(); ++i) {
      EngineView part = view;
      const bool fits =
          part.Split(dim, held, i, groups) &&
          (held[i] == lengths[i] ||
           part.Split(dim,
                      std::vector<int64_t>(
                          static_cast<size_t>(held[i] / lengths[i]), 1),
                      0, SizeOf("groups", sizes_).value_or(0)));
      if (!fits) {
        entry.unfit = kUnfitSizes;
        continue;
      }
      const std::string& name = op_.rule->parts[i].name;
      entry.places.push_back(PlaceOf(
          {Child(Parent(op_.path), name), tensor.io, tensor.index},
          std::move(part), fmt::format("{} in {}", name, LastPart(op_.path))));
    }
  }

  bool IsHidden(const std::string& index) const {
    return index == "0" ||
           (std::find(std::begin(kHiddenNames), std::end(kHiddenNames),
                      index) != std::end(kHiddenNames) &&
            !FindTensor(*op_.facts, Io::kInput, "0").has_value());
  }

  void AddActivation(const TensorFacts& tensor, Io io,
                     EnginePlaces::Entry& entry) {
    if (io == Io::kInput && run_.table != nullptr) {
      for (const std::string& pattern : run_.table->arguments) {
        if (FitsPattern(tensor.index, pattern)) {
          entry.gone = "an argument that other engines do not have";
          return;
        }
      }
    }
    const std::string index =
        io == Io::kInput && IsHidden(tensor.index) ? "0" : tensor.index;
    entry.places.push_back(PlaceOf({op_.path, tensor.io, index},
                                   ViewOf(tensor, io),
                                   std::string(kSameModule)));
  }

  const RunFacts& facts_;
  const EngineRun& run_;
  const EngineSizes& sizes_;
  const int ranks_;
  int64_t last_layer_ = -1;
  // Whether the engine has replaced weights by copies for its kernels.
  bool has_packed_ = false;
  CommonOp op_;
  EnginePlaces out_;
};

}  // namespace

EnginePlaces PlacesOf(const RunFacts& facts, const EngineRun& run,
                      const EngineSizes& sizes, int ranks) {
  return PlaceFinder(facts, run, sizes, ranks).Find();
}

}  // namespace msitd::match
