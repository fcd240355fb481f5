// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/torch/module_pairs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "client/foreign/match/json_text.h"
#include "client/foreign/match/limits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOpMappingFile = "op_mapping_file.json";
constexpr int64_t kElewiseAdd = 8;

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return out;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the last component of a name.
std::string_view LastOf(std::string_view op) {
  return op.substr(op.find_last_of("/.") + 1);  // npos + 1 is 0.
}

// Returns a type in the form that is the same for a quantized model.
std::string_view WithoutQuantization(std::string_view type) {
  if (type == "LinearQuantOperation") return "LinearOperation";
  if (type == "LinearDequantOnly") return "LinearNoQuant";
  if (type == "LinearRowParallelNoAdd") return "LinearRowParallelAndAdd";
  return type;
}

// Words in the path of an operation, in addition to words in the name of the
// corresponding module.
struct Keywords {
  std::array<std::string_view, 2> atb;
  std::string_view torch;
  ModulePlace atb_place = {};
  ModulePlace torch_place = {};
};

const std::vector<Keywords>& AllKeywords() {
  static const auto* const all = new std::vector<Keywords>{
      {{"qkv", "linearoperation"}, "self_attn.w_pack"},
      {{"qkv", "splitoperation"}, "self_attn.v_proj"},
      {{"qkvlinear", "splitoperation"}, "self_attn.k_proj"},
      {{"qkvlinearsplit", "splitoperation"}, "self_attn.q_proj"},
      {{"attention", "linearoperation"}, "self_attn.o_proj"},
      {{"mlp", "rmsnormoperation"}, "mlp.post_attention_layernorm"},
      {{"mlp", "splitoperation"}, "mlp.gate_proj", {Io::kOutput, "0"}},
      {{"mlp", "activationoperation"}, "mlp.act_fn"},
      {{"mlp", "elewiseoperation"}, "mlp.down_proj", {}, {Io::kInput, "0"}},
      {{"mlp", "linearoperation"}, "mlp.down_proj"},
  };
  return *all;
}

// Words in the names of modules of layers, and the corresponding operations.
// The order is that of msit.
struct ModuleWords {
  std::string_view atb;
  std::array<std::string_view, 3> torch;
};
constexpr std::array kModuleWords = {
    ModuleWords{"Attention", {"self_attn", "self_attention", "Attention"}},
    ModuleWords{"Mlp", {"mlp", "Mlp"}},
    ModuleWords{"mlp", {"mlp"}},
    ModuleWords{"self_attn", {"self_attn"}},
    ModuleWords{"self_attention", {"self_attention"}},
};

const OpMapping& OwnOpMapping() {
  static const auto* const own = new OpMapping{
      {"CommonLayer_outtensor0", {"GLMBlock_output_0", "BloomBlock_output_0"}},
      {"MlpGateLayerV2", {"BloomMLP", "MLP"}},
      {"RmsNormOperation", {"RMSNorm"}},
      {"SelfAttentionOperation", {"CoreAttention"}},
  };
  return *own;
}

// Parses `outtensor0`, `intensor1`, `output`, `output_1_0`, `input_0`.
ModulePlace PlaceOf(std::string_view tensor) {
  ModulePlace out;
  if (tensor.starts_with("in")) out.io = Io::kInput;
  const size_t digit = tensor.find_first_of("0123456789");
  out.index =
      digit == std::string_view::npos ? "0" : std::string(tensor.substr(digit));
  std::replace(out.index.begin(), out.index.end(), '_', '.');
  return out;
}

class Pairer {
 public:
  Pairer(const ModuleTree& torch, const ModuleTree& atb,
         const LayersOfModels& layers)
      : torch_(torch), atb_(atb) {
    const size_t count = std::min(layers.torch.size(), layers.atb.size());
    for (size_t i = 0; i < count; ++i) {
      layers_.emplace_back(layers.torch[i], layers.atb[i]);
    }
  }

  void ByLayer();
  void ByLayerName();
  void ByModule();
  void ByLastChild();
  void ByName();
  void ByTypeAndCount();
  void ByBuiltInType();
  void ByCustomType(const OpMapping& mapping);
  void ByRope();
  void ByKeyword();
  void ByQkv();

  absl::StatusOr<std::vector<ModulePair>> Finish() const {
    if (is_beyond_) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "more than {} pairs of modules", kModulePairsMax);
    }
    std::vector<ModulePair> out(pairs_.begin(), pairs_.end());
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
      return a.atb < b.atb;
    });
    return out;
  }

 private:
  // Returns false once there are too many.
  bool Add(size_t torch, size_t atb, ModulePlace torch_place = {},
           ModulePlace atb_place = {}) {
    // The whole model is not a module.
    if (torch == 0 || atb == 0) return true;
    is_beyond_ = is_beyond_ || pairs_.size() >= kModulePairsMax;
    if (is_beyond_) return false;
    pairs_.insert({torch, std::move(torch_place), atb, std::move(atb_place)});
    return true;
  }
  // Pairs them in order.
  void AddAll(const std::vector<size_t>& torch, const std::vector<size_t>& atb,
              const ModulePlace& torch_place = {},
              const ModulePlace& atb_place = {}) {
    for (size_t i = 0; i < std::min(torch.size(), atb.size()); ++i) {
      if (!Add(torch[i], atb[i], torch_place, atb_place)) return;
    }
  }
  template <typename Is>
  static std::vector<size_t> Select(const ModuleTree& tree,
                                    const std::vector<size_t>& nodes,
                                    const Is& is) {
    std::vector<size_t> out;
    for (const size_t node : nodes) {
      if (is(tree[node])) out.push_back(node);
    }
    return out;
  }
  void PairTypes(std::pair<size_t, size_t> layer, std::string_view atb_type,
                 std::string_view torch_type);

  const ModuleTree& torch_;
  const ModuleTree& atb_;
  std::vector<std::pair<size_t, size_t>> layers_;  // Torch, then ATB.
  std::set<ModulePair> pairs_;
  bool is_beyond_ = false;
};

void Pairer::ByLayer() {
  for (const auto& [torch, atb] : layers_) Add(torch, atb);
}

bool IsWordEmbedding(const ModuleNode& node) {
  return (Contains(node.name, "embed_tokens") ||
          Contains(node.name, "word_embeddings")) &&
         !Contains(node.name, "word_embeddings_layernorm");
}

// Returns true for `RmsNormOperation_13`, which belongs to the model itself.
bool IsOuterNorm(const ModuleNode& node) {
  constexpr std::string_view kNorm = "RmsNormOperation_";
  const std::string_view name = node.name;
  return name.starts_with(kNorm) && name.size() > kNorm.size() &&
         name.find_first_not_of("0123456789", kNorm.size()) ==
             std::string_view::npos;
}

void Pairer::ByLayerName() {
  const auto has = [](std::string_view part) {
    return [part](const ModuleNode& node) {
      return Contains(Lower(node.name), part);
    };
  };
  const auto torch = torch_.AllOf(0);
  const auto atb = atb_.AllOf(0);
  const auto pair = [&](const auto& is_torch, const auto& is_atb) {
    AddAll(Select(torch_, torch, is_torch), Select(atb_, atb, is_atb));
  };
  pair(IsWordEmbedding, has("wordembedding"));
  pair(has("root.model.norm"), IsOuterNorm);
  pair(has("lm_head"), has("lmhead"));
  // For Bloom.
  pair(has("embeddings_layernorm"), has("layernormoperation_35"));
  pair(has("ln_f"), has("layernormoperation_66"));
}

void Pairer::ByModule() {
  const auto pair = [this](const auto& layer, const auto& torch,
                           std::string_view atb) {
    const auto is_torch = [&](const ModuleNode& node) {
      return std::any_of(torch.begin(), torch.end(), [&](auto part) {
        return !part.empty() && Contains(LastOf(node.op), part);
      });
    };
    const auto is_atb = [&](const ModuleNode& node) {
      return Contains(LastOf(node.op), atb);
    };
    AddAll(Select(torch_, torch_[layer.first].children, is_torch),
           Select(atb_, atb_[layer.second].children, is_atb));
  };
  for (const auto& layer : layers_) {
    for (const ModuleWords& words : kModuleWords) {
      pair(layer, words.torch, words.atb);
    }
  }
}

void Pairer::ByLastChild() {
  const auto last = [](const ModuleTree& tree) {
    std::vector<size_t> out;
    for (size_t at = 0; !tree[at].children.empty();) {
      at = tree[at].children.back();
      out.push_back(at);
    }
    return out;
  };
  const auto atb = last(atb_);
  for (const size_t torch : last(torch_)) {
    for (const size_t other : atb) Add(torch, other);
  }
}

void Pairer::ByName() {
  std::unordered_map<std::string_view, size_t> by_name;
  for (const size_t node : torch_.AllOf(0)) {
    by_name.emplace(torch_[node].name, node);
  }
  for (const size_t node : atb_.AllOf(0)) {
    const auto found = by_name.find(atb_[node].name);
    if (found != by_name.end()) Add(found->second, node);
  }
}

void Pairer::ByTypeAndCount() {
  using ByType = std::map<std::string_view, std::vector<size_t>>;
  const auto types = [](const ModuleTree& tree, size_t node) {
    ByType out;
    for (const size_t child : tree[node].children) {
      out[WithoutQuantization(tree[child].type)].push_back(child);
    }
    return out;
  };
  std::vector<std::pair<size_t, size_t>> matched = {{0, 0}};
  for (size_t i = 0; i < matched.size(); ++i) {
    const auto [torch, atb] = matched[i];
    ByType of_torch = types(torch_, torch);
    for (const auto& [type, nodes] : types(atb_, atb)) {
      const std::vector<size_t>& others = of_torch[type];
      if (others.size() != nodes.size()) continue;
      for (size_t j = 0; j < nodes.size(); ++j) {
        matched.emplace_back(others[j], nodes[j]);
      }
    }
  }
  for (const auto& [torch, atb] : matched) Add(torch, atb);
}

// A linear operation without a bias may be half of a module. The operation that
// adds the bias follows it.
void Pairer::ByBuiltInType() {
  for (const auto& [torch, atb] : layers_) {
    for (const auto& [atb_type, torch_type] :
         {std::pair("LayerNormOperation", "LayerNorm"),
          std::pair("LinearOperation", "Linear")}) {
      const auto has_type = [](std::string_view type) {
        return [type](const ModuleNode& node) { return node.type == type; };
      };
      const auto others =
          Select(torch_, torch_.LeavesOf(torch), has_type(torch_type));
      auto nodes = Select(atb_, atb_.LeavesOf(atb), has_type(atb_type));
      if (others.size() != nodes.size()) continue;
      for (size_t& node : nodes) {
        const size_t next = atb_.NextSibling(node);
        const bool is_half = atb_[node].type == "LinearOperation" &&
                             !atb_[node].has_bias && next != 0 &&
                             atb_[next].type == "ElewiseOperation" &&
                             atb_[next].elewise_type == kElewiseAdd;
        if (is_half) node = next;
      }
      AddAll(others, nodes, {Io::kOutput, "0"}, {Io::kOutput, "0"});
    }
  }
}

void Pairer::PairTypes(std::pair<size_t, size_t> layer,
                       std::string_view atb_type, std::string_view torch_type) {
  // Each type may be followed by the name of a tensor.
  const auto cut = [](std::string_view& type) -> ModulePlace {
    const size_t bar = type.find('_');
    if (bar == std::string_view::npos) return {};
    const ModulePlace out = PlaceOf(type.substr(bar + 1));
    type = type.substr(0, bar);
    return out;
  };
  const ModulePlace atb_place = cut(atb_type);
  const ModulePlace torch_place = cut(torch_type);
  const auto torch = Select(
      torch_, torch_.AllOf(layer.first),
      [&](const ModuleNode& node) { return Contains(node.type, torch_type); });
  const auto atb = Select(
      atb_, atb_.AllOf(layer.second),
      [&](const ModuleNode& node) { return Contains(node.type, atb_type); });
  if (torch.size() == atb.size()) AddAll(torch, atb, torch_place, atb_place);
}

void Pairer::ByCustomType(const OpMapping& mapping) {
  for (const auto& layer : layers_) {
    for (const auto& [atb_type, torch_types] : mapping) {
      for (const std::string& torch_type : torch_types) {
        PairTypes(layer, atb_type, torch_type);
      }
    }
  }
}

void Pairer::ByRope() {
  for (const auto& [torch, atb] : layers_) {
    AddAll(
        Select(torch_, torch_.LeavesOf(torch),
               [](const auto& node) { return Contains(node.name, "rotary"); }),
        Select(atb_, atb_.LeavesOf(atb),
               [](const auto& node) {
                 return Contains(Lower(node.name), "ropeoperation");
               }),
        {Io::kOutput, ""}, {Io::kInput, ""});
  }
}

void Pairer::ByKeyword() {
  for (const auto& [torch, atb] : layers_) {
    const auto torch_leaves = torch_.LeavesOf(torch);
    const auto atb_leaves = atb_.LeavesOf(atb);
    for (const Keywords& words : AllKeywords()) {
      const auto others =
          Select(torch_, torch_leaves, [&](const ModuleNode& node) {
            return Contains(Lower(node.op), words.torch);
          });
      const auto nodes = Select(atb_, atb_leaves, [&](const ModuleNode& node) {
        const std::string path = Lower(node.op);
        return Contains(path, words.atb[0]) && Contains(path, words.atb[1]) &&
               !(words.torch == "self_attn.o_proj" && Contains(path, "qkv"));
      });
      for (const size_t other : others) {
        for (const size_t node : nodes) {
          if (!Add(other, node, words.torch_place, words.atb_place)) return;
        }
      }
    }
  }
}

void Pairer::ByQkv() {
  for (const auto& [torch, atb] : layers_) {
    const auto others = Select(torch_, torch_.GrandchildrenOf(torch),
                               [](const ModuleNode& node) {
                                 const std::string path = Lower(node.op);
                                 return Contains(path, "self_attn.v_proj") ||
                                        Contains(path, "self_attn.k_proj") ||
                                        Contains(path, "self_attn.q_proj");
                               });
    const auto nodes = Select(
        atb_, atb_.GrandchildrenOf(atb),
        [](const ModuleNode& node) { return Contains(Lower(node.op), "qkv"); });
    for (const size_t other : others) {
      for (const size_t node : nodes) {
        if (!Add(other, node)) return;
      }
    }
  }
}

bool IsTypeName(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

}  // namespace

LayersOfModels FindLayers(const ModuleTree& torch, const ModuleTree& atb,
                          bool finds_few) {
  LayersOfModels out{torch.Layers(), atb.Layers()};
  if (!finds_few || !out.torch.empty() || !out.atb.empty()) return out;
  LayersOfModels few{torch.FewLayers(), atb.FewLayers()};
  return few.torch.size() == few.atb.size() ? few : out;
}

std::vector<size_t> ModulesOfLayers(const ModuleTree& tree,
                                    const std::vector<size_t>& layers) {
  std::vector<size_t> out;
  for (const size_t layer : layers) {
    const size_t begin = out.size();
    for (const ModuleWords& words : kModuleWords) {
      for (const size_t child : tree[layer].children) {
        const bool is_new =
            std::find(out.begin() + static_cast<ptrdiff_t>(begin), out.end(),
                      child) == out.end();
        if (is_new && Contains(LastOf(tree[child].op), words.atb)) {
          out.push_back(child);
        }
      }
    }
  }
  return out;
}

absl::StatusOr<OpMapping> ParseOpMapping(std::string_view text) {
  MSITD_RETURN_IF_ERROR(CheckJson(kOpMappingFile, text));
  const Json json = Json::parse(text);
  const auto invalid = [](std::string_view key) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: \"{}\" does not map a type to a type or a list of "
                      "types of letters, digits and _",
                      kOpMappingFile, key);
  };
  if (!json.is_object()) return invalid("");
  OpMapping out;
  for (const auto& [key, value] : json.items()) {
    std::vector<std::string>& types = out[key];
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& type : list) {
      if (!type.is_string()) return invalid(key);
      types.push_back(type.get<std::string>());
    }
    if (!IsTypeName(key) ||
        !std::all_of(types.begin(), types.end(), [](const std::string& type) {
          return IsTypeName(type);
        })) {
      return invalid(key);
    }
  }
  return out;
}

absl::StatusOr<std::vector<ModulePair>> PairModules(
    const ModuleTree& torch, const ModuleTree& atb, ModuleLevel level,
    const OpMapping& user, const LayersOfModels& layers) {
  Pairer pairer(torch, atb, layers);
  const bool is_all = level == ModuleLevel::kAll;
  if (is_all || level != ModuleLevel::kModule) {
    pairer.ByLayer();
    pairer.ByLayerName();
  }
  if (is_all || level == ModuleLevel::kModule) pairer.ByModule();
  if (is_all || level == ModuleLevel::kApi) {
    pairer.ByLastChild();
    pairer.ByName();
    pairer.ByTypeAndCount();
    pairer.ByBuiltInType();
    OpMapping mapping = OwnOpMapping();
    for (const auto& [atb_type, torch_types] : user) {
      mapping[atb_type] = torch_types;
    }
    pairer.ByCustomType(mapping);
    pairer.ByRope();
    pairer.ByKeyword();
    pairer.ByQkv();
  }
  return pairer.Finish();
}

}  // namespace msitd::match
