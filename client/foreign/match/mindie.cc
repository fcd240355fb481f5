// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/mindie.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "client/foreign/match/arguments.h"
#include "client/foreign/match/ge/models.h"
#include "client/foreign/match/json_text.h"
#include "client/foreign/match/limits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMindieRtMapping = "mindie_rt_op_mapping.json";
constexpr std::string_view kMindieTorchMapping = "mindie_torch_op_mapping.json";

constexpr std::string_view kByMapping = "stated in the mapping of MindIE";
constexpr LeftReason kNoNode{"its layers have no torch node",
                             /*is_expected=*/true};
constexpr LeftReason kNoModule{"its torch node is not in a module",
                               /*is_expected=*/true};
constexpr LeftReason kNotLeaf{"its torch node is in a module of other ops",
                              /*is_expected=*/true};
constexpr LeftReason kModuleMissing{"the module was not recorded"};
constexpr LeftReason kOtherCalls{
    "the module was not recorded at each of its calls"};
constexpr LeftReason kNotMapped{"not in the mapping of MindIE"};
constexpr LeftReason kNoArgument{"no argument of the module corresponds to it"};
constexpr LeftReason kOpMissing{"its op of MindIE was not recorded"};
constexpr LeftReason kNoTensor{
    "no tensor of its op of MindIE corresponds to it"};
constexpr LeftReason kFused{"inside a fused op", /*is_expected=*/true};
constexpr LeftReason kWeight{"a weight, not an input of the module",
                             /*is_expected=*/true};
constexpr LeftReason kNoFirst{"it is unknown which module has the inputs",
                              /*is_expected=*/true};
constexpr LeftReason kNotByMsit{"msit compares only the first output",
                                /*is_expected=*/true};
constexpr LeftReason kNoOp{"no op of MindIE begins or ends in it",
                           /*is_expected=*/true};

// Returns the text of a key; empty if there is none.
std::string TextAt(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

absl::StatusOr<Json> ParseList(std::string_view file, std::string_view text) {
  MSITD_RETURN_IF_ERROR(CheckJson(file, text));
  Json list = Json::parse(text);
  if (!list.is_array() || list.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: is not a list, or is empty", file);
  }
  for (const Json& entry : list) {
    if (entry.is_object()) continue;
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: an entry is not an object", file);
  }
  return list;
}

absl::Status NoNodesError() {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "{}: its entries have no torch node. Saving and loading a "
                    "model removes them, so record a newly compiled one",
                    kMindieTorchMapping);
}

// One layer of MindIE's engine.
struct Layer {
  int64_t id = 0;
  std::string name;
  std::string ge_op;
  std::string fusion_op;
};

std::vector<Layer> LayersOf(const Json& list) {
  std::vector<Layer> out;
  for (const Json& entry : list) {
    Layer layer;
    const auto id = entry.find("id");
    if (id != entry.end() && id->is_number_integer()) {
      layer.id = id->get<int64_t>();
    }
    layer.name = TextAt(entry, "rt_layer");
    layer.ge_op = TextAt(entry, "ge_op");
    layer.fusion_op = TextAt(entry, "fusion_op");
    if (layer.fusion_op.empty()) layer.fusion_op = layer.ge_op;
    if (!layer.fusion_op.empty()) out.push_back(std::move(layer));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.id < b.id; });
  return out;
}

std::string JitModule(std::string_view node) {
  constexpr std::string_view kModule = "__module.";
  if (node.find("scope:") == std::string_view::npos) return "";
  const size_t place = node.find('#');
  if (place == std::string_view::npos) return "";
  node = node.substr(0, place);
  const size_t module = node.rfind(kModule);
  if (module == std::string_view::npos) return "";
  node = node.substr(module + kModule.size());
  const size_t end = node.find_last_not_of(" \t\r\n");
  return std::string(node.substr(0, end + 1));  // npos + 1 is 0.
}

std::string FxModule(std::string_view node) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t slash = node.find('/');
    parts.push_back(node.substr(0, slash));
    if (slash == std::string_view::npos) break;
    node = node.substr(slash + 1);
  }
  if (parts.size() < 3) return "";
  std::string out;
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    if (i > 1) out += '.';
    out += parts[i];
  }
  const size_t begin = out.find_first_not_of("_.");
  if (begin == std::string::npos) return "";
  return out.substr(begin, out.find_last_not_of("_.") + 1 - begin);
}

// The ops of a torch run, without `root.`.
class Modules {
 public:
  // `is_loose`: names match if they differ only in `_` and `.`.
  Modules(const RunFacts& run, bool is_loose) : is_loose_(is_loose) {
    for (size_t i = 0; i < run.ops.size(); ++i) {
      std::string_view name = run.ops[i].op;
      if (name.starts_with(kRoot)) name.remove_prefix(kRoot.size());
      exact_.emplace(name, i);
      if (is_loose) loose_.emplace(Loose(name), i);
    }
  }

  std::optional<size_t> Find(const std::string& name) const {
    const auto exact = exact_.find(name);
    if (exact != exact_.end()) return exact->second;
    const auto loose = is_loose_ ? loose_.find(Loose(name)) : loose_.end();
    if (loose != loose_.end()) return loose->second;
    return std::nullopt;
  }

 private:
  static constexpr std::string_view kRoot = "root.";

  static std::string Loose(std::string_view name) {
    std::string out(name);
    std::replace(out.begin(), out.end(), '_', '.');
    return out;
  }

  const bool is_loose_;
  std::unordered_map<std::string, size_t> exact_;
  std::unordered_map<std::string, size_t> loose_;
};

// Returns true if another name is inside this one. `sorted` has all names, each
// followed by a dot.
bool HasParts(const std::vector<std::string>& sorted, const std::string& name) {
  const std::string prefix = name + '.';
  const auto found = std::upper_bound(sorted.begin(), sorted.end(), prefix);
  return found != sorted.end() && found->starts_with(prefix);
}

// Returns false if the inputs beyond those of the module cannot all be weights.
// All recorded inputs of the module have their position.
bool MayBeWeights(const OpFacts& module, size_t count) {
  // A gap in the numbers is an input that was not recorded.
  size_t next = 0;
  for (const size_t i : ArgumentsOf(module, Io::kInput)) {
    const std::string_view index = module.tensors[i].index;
    const std::string_view first = index.substr(0, index.find('.'));
    if (first == std::to_string(next)) {
      ++next;
    } else if (next == 0 || first != std::to_string(next - 1)) {
      const bool is_number =
          first.find_first_not_of("0123456789") == std::string_view::npos;
      if (is_number) return count == 0;
    }
  }
  // None of them may have been recorded.
  const size_t weights = ArgumentsOf(module, Io::kWeight).size();
  return weights == 0 || count <= weights;
}

class Matcher {
 public:
  Matcher(const MindieMapping& mapping, const MatchOptions& options,
          MappingBuilder& builder)
      : mapping_(mapping),
        options_(options),
        builder_(builder),
        modules_(builder.golden(), /*is_loose=*/!mapping.is_jit) {
    for (const MindieGroup& group : mapping.groups) {
      const std::string name = ModuleOfNode(group.node, mapping.is_jit);
      if (name.empty()) continue;
      names_.push_back(name + '.');
      if (!options.is_compat) ++group_counts_[name];
    }
    std::sort(names_.begin(), names_.end());
  }

  void Match(const Model& model) {
    std::unordered_map<std::string, int32_t> calls;
    for (const MindieGroup& group : mapping_.groups) {
      const std::string name = ModuleOfNode(group.node, mapping_.is_jit);
      const int32_t call = calls[name]++;
      const auto op = model.by_name.find(group.fusion_op);
      if (op != model.by_name.end()) {
        MatchGroup(group, name, call, op->second);
      }
    }
  }

  // Sets the reason for unpaired modules. Call it after all models.
  void LeaveModules(const std::vector<Model>& models);

 private:
  void MatchGroup(const MindieGroup& group, const std::string& name,
                  int32_t call, size_t op);
  void MatchInputs(const MindieGroup& group, size_t module, size_t op,
                   MappingBuilder::Calls calls);
  void LeaveAsMsit(size_t module, size_t op);
  // Leaves one side of the module that contains a node.
  void LeaveEnd(const std::string& node, Io io, const LeftReason& reason);

  const MindieMapping& mapping_;
  const MatchOptions& options_;
  MappingBuilder& builder_;
  const Modules modules_;
  std::vector<std::string> names_;
  // The number of groups that end in each module.
  std::unordered_map<std::string, int32_t> group_counts_;
};

void Matcher::MatchGroup(const MindieGroup& group, const std::string& name,
                         int32_t call, size_t op) {
  if (group.node.empty() || name.empty()) {
    builder_.LeaveTargetOp(op, group.node.empty() ? kNoNode : kNoModule);
    return;
  }
  if (HasParts(names_, name)) {
    builder_.LeaveTargetOp(op, kNotLeaf, name);
    return;
  }
  const std::optional<size_t> module = modules_.Find(name);
  const auto outputs = ArgumentsOf(builder_.target().ops[op], Io::kOutput);
  if (!module.has_value()) {
    for (const size_t i : outputs) {
      builder_.PairWithAbsent(
          {op, i},
          {.op = "root." + name,
           .io = Io::kOutput,
           .index = builder_.target().ops[op].tensors[i].index},
          kModuleMissing.text);
    }
    builder_.LeaveTargetOp(op, kModuleMissing, name);
    return;
  }
  const OpFacts& golden = builder_.golden().ops[*module];
  MappingBuilder::Calls calls;
  const int32_t groups = options_.is_compat ? 1 : group_counts_.at(name);
  if (groups > 1 && golden.call_count != groups) {
    builder_.LeaveTargetOp(op, kOtherCalls, name);
    builder_.LeaveGoldenOp(*module, kOtherCalls);
    return;
  }
  if (groups > 1) calls = {call, 0};
  const auto others = ArgumentsOf(golden, Io::kOutput);
  const Alignment pairs =
      options_.is_compat
          ? Zip(std::min<size_t>(others.size(), 1),
                std::min<size_t>(outputs.size(), 1))
          : Align(golden, others, builder_.target().ops[op], outputs);
  for (const auto& [i, j] : pairs) {
    builder_.Pair({*module, others[i]}, {op, outputs[j]}, kByMapping, calls);
  }
  if (options_.is_compat) {
    LeaveAsMsit(*module, op);
  } else {
    MatchInputs(group, *module, op, calls);
  }
  for (const size_t i : others) builder_.LeaveGolden({*module, i}, kNoTensor);
  builder_.LeaveTargetOp(op, kNoArgument, name);
}

void Matcher::LeaveAsMsit(size_t module, size_t op) {
  const OpFacts& golden = builder_.golden().ops[module];
  const OpFacts& target = builder_.target().ops[op];
  for (const size_t i : ArgumentsOf(golden, Io::kInput)) {
    builder_.LeaveGolden({module, i}, kNotByMsit);
  }
  for (const size_t i : ArgumentsOf(target, Io::kInput)) {
    builder_.LeaveTarget({op, i}, kNotByMsit);
  }
  const auto others = ArgumentsOf(golden, Io::kOutput);
  for (size_t i = 1; i < others.size(); ++i) {
    builder_.LeaveGolden({module, others[i]}, kNotByMsit);
  }
  const auto outputs = ArgumentsOf(target, Io::kOutput);
  for (size_t i = 1; i < outputs.size(); ++i) {
    builder_.LeaveTarget({op, outputs[i]}, kNotByMsit);
  }
}

// The op has the inputs of its first node, and weights.
void Matcher::MatchInputs(const MindieGroup& group, size_t module, size_t op,
                          MappingBuilder::Calls calls) {
  const auto outer = ArgumentsOf(builder_.target().ops[op], Io::kInput);
  const auto leave = [&](const LeftReason& reason) {
    for (const size_t i : outer) builder_.LeaveTarget({op, i}, reason);
  };
  if (group.first_node != group.node) {
    const std::string name = ModuleOfNode(group.first_node, mapping_.is_jit);
    const std::optional<size_t> found = modules_.Find(name);
    if (name.empty() || HasParts(names_, name)) {
      leave(kNoFirst);
      return;
    }
    if (!found.has_value()) {
      leave(kModuleMissing);
      return;
    }
    if (builder_.golden().ops[*found].call_count > 1) {
      leave(kNoFirst);
      return;
    }
    module = *found;
    calls = {};
  }
  const auto inner = ArgumentsOf(builder_.golden().ops[module], Io::kInput);
  for (const auto& [i, j] : AlignBySize(builder_.golden().ops[module], inner,
                                        builder_.target().ops[op], outer)) {
    builder_.Pair({module, inner[i]}, {op, outer[j]}, kByMapping, calls);
  }
  for (const size_t i : inner) builder_.LeaveGolden({module, i}, kNoTensor);
  const bool has_all =
      !inner.empty() && std::all_of(inner.begin(), inner.end(), [&](size_t i) {
        return builder_.IsGoldenTaken({module, i});
      });
  const bool may_be_weights =
      MayBeWeights(builder_.golden().ops[module],
                   static_cast<size_t>(
                       std::count_if(outer.begin(), outer.end(), [&](size_t i) {
                         return !builder_.IsTargetTaken({op, i});
                       })));
  leave(has_all && may_be_weights ? kWeight : kNoArgument);
}

// Missing tensors are handled before expected ones, because the first reason is
// used.
void Matcher::LeaveModules(const std::vector<Model>& models) {
  for (const MindieGroup& group : mapping_.groups) {
    const bool is_recorded = std::any_of(
        models.begin(), models.end(),
        [&](const Model& model) { return model.Has(group.fusion_op); });
    if (is_recorded) continue;
    LeaveEnd(group.node, Io::kOutput, kOpMissing);
    LeaveEnd(group.first_node, Io::kInput, kOpMissing);
  }
  for (const MindieGroup& group : mapping_.groups) {
    if (group.first_node == group.node) continue;
    LeaveEnd(group.node, Io::kInput, kFused);
    LeaveEnd(group.first_node, Io::kOutput, kFused);
  }
}

void Matcher::LeaveEnd(const std::string& node, Io io,
                       const LeftReason& reason) {
  const std::string name = ModuleOfNode(node, mapping_.is_jit);
  if (name.empty() || HasParts(names_, name)) return;
  const std::optional<size_t> module = modules_.Find(name);
  if (!module.has_value()) return;
  for (const size_t i : ArgumentsOf(builder_.golden().ops[*module], io)) {
    builder_.LeaveGolden({*module, i}, reason);
  }
}

std::string_view WithoutFolder(std::string_view file) {
  return file.substr(file.rfind('/') + 1);  // npos + 1 is 0.
}

const TextFile* FindFile(const RunFacts& run, std::string_view name) {
  for (const TextFile& file : run.files) {
    if (WithoutFolder(file.name) == name) return &file;
  }
  return nullptr;
}

}  // namespace

bool IsMindieMapping(std::string_view file) {
  const std::string_view name = WithoutFolder(file);
  return name == kMindieRtMapping || name == kMindieTorchMapping;
}

std::string OpMapText(const MindieMapping& mapping, bool is_compat) {
  using OrderedJson = nlohmann::ordered_json;
  const auto json_of = [](const std::string& node) {
    return node.empty() ? OrderedJson() : OrderedJson(node);
  };
  OrderedJson out = OrderedJson::object();
  for (size_t i = 0; i < mapping.groups.size(); ++i) {
    const MindieGroup& group = mapping.groups[i];
    const bool takes_next = is_compat && i + 1 < mapping.groups.size();
    OrderedJson path = OrderedJson::array();
    for (const MindiePart& part :
         mapping.groups[i + (takes_next ? 1 : 0)].parts) {
      path.push_back({{"ge_op", part.ge_op}, {"jit_node", json_of(part.node)}});
    }
    out[group.fusion_op] = {{"id", i + 1},
                            {"jit_node", json_of(group.node)},
                            {"fuse_path", std::move(path)}};
  }
  return out.dump(/*indent=*/4, ' ', /*ensure_ascii=*/true);
}

absl::StatusOr<MindieMapping> ParseMindieMapping(std::string_view rt_text,
                                                 std::string_view torch_text) {
  MSITD_ASSIGN_OR_RETURN(const Json rt, ParseList(kMindieRtMapping, rt_text));
  MSITD_ASSIGN_OR_RETURN(const Json torch,
                         ParseList(kMindieTorchMapping, torch_text));
  MindieMapping out;
  out.is_jit = torch.front().contains("jit_node");
  if (!out.is_jit && !torch.front().contains("fx_node")) {
    return NoNodesError();
  }
  std::unordered_map<std::string, std::string> nodes;
  for (const Json& entry : torch) {
    nodes[TextAt(entry, "rt_layer")] =
        TextAt(entry, out.is_jit ? "jit_node" : "fx_node");
  }
  if (std::all_of(nodes.begin(), nodes.end(),
                  [](const auto& node) { return node.second.empty(); })) {
    return NoNodesError();
  }
  const auto node_of = [&nodes](const Layer& layer) -> std::string {
    const auto found = nodes.find(layer.name);
    return found == nodes.end() ? "" : found->second;
  };
  for (const Layer& layer : LayersOf(rt)) {
    std::string node = node_of(layer);
    if (out.groups.empty() || out.groups.back().fusion_op != layer.fusion_op) {
      out.groups.push_back({layer.fusion_op, node, "", {}});
    }
    out.groups.back().parts.push_back({layer.ge_op, node});
    out.groups.back().node = std::move(node);
  }
  const bool has_nodes =
      std::any_of(out.groups.begin(), out.groups.end(),
                  [](const MindieGroup& group) { return !group.node.empty(); });
  if (!has_nodes) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} and {} have no layers in common", kMindieRtMapping,
                      kMindieTorchMapping);
  }
  return out;
}

std::string ModuleOfNode(std::string_view node, bool is_jit) {
  return is_jit ? JitModule(node) : FxModule(node);
}

absl::StatusOr<Mapping> MatchMindieWithTorch(const RunFacts& golden,
                                             const RunFacts& target,
                                             const MatchOptions& options) {
  const TextFile* rt = FindFile(target, kMindieRtMapping);
  const TextFile* torch = FindFile(target, kMindieTorchMapping);
  if (rt == nullptr) rt = FindFile(golden, kMindieRtMapping);
  if (torch == nullptr) torch = FindFile(golden, kMindieTorchMapping);
  if (rt == nullptr || torch == nullptr) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      "run {} lacks the attachment {}", target.run,
                      rt == nullptr ? kMindieRtMapping : kMindieTorchMapping);
  }
  MSITD_ASSIGN_OR_RETURN(const MindieMapping mapping,
                         ParseMindieMapping(rt->text, torch->text));
  MappingBuilder builder(golden, target);
  Matcher matcher(mapping, options, builder);
  const std::vector<Model> models = ModelsOf(target);
  for (const Model& model : models) matcher.Match(model);
  matcher.LeaveModules(models);
  return builder.Finish(kNoOp, kNotMapped);
}

}  // namespace msitd::match
