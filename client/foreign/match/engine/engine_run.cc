// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/engine/engine_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/foreign/match/json_text.h"
#include "client/foreign/match/limits.h"

namespace msitd::match {
namespace {

using Json = nlohmann::json;

// The projection whose input is the result of all heads.
constexpr std::string_view kOutputProjection = ".o_proj";

constexpr int64_t kRanksMax = 1 << 16;

// Larger numbers in a configuration are not sizes of a model. Their products do
// not overflow.
constexpr int64_t kSizeMax = int64_t{1} << 30;

std::string TextOfKey(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>()
                                                    : "";
}

const Json* ObjectOfKey(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_object() ? &*found : nullptr;
}

std::vector<int64_t> ShapeOfParameter(const Json& parameter) {
  std::vector<int64_t> out;
  const auto shape = parameter.find("shape");
  if (shape == parameter.end() || !shape->is_array()) return out;
  for (const Json& dim : *shape) {
    if (!dim.is_number_integer()) return {};
    out.push_back(dim.get<int64_t>());
  }
  return out;
}

bool BelongsTo(std::string_view module_class, std::string_view package) {
  return module_class.starts_with(package) &&
         module_class.size() > package.size() &&
         module_class[package.size()] == '.';
}

// Returns the position of a table in the order of precedence: engines reuse
// modules of transformers.
size_t PrecedenceOf(const EngineTable* table) {
  if (table == nullptr) return 0;
  return table->engine == "transformers" ? 1 : 2;
}

void AddModule(const Json& entry, EngineRun& out) {
  const std::string full = TextOfKey(entry, "class");
  const size_t dot = full.rfind('.');
  EngineModule module;
  module.module_class = dot == std::string::npos ? full : full.substr(dot + 1);
  for (const EngineTable& table : EngineTables()) {
    if (BelongsTo(full, table.package) &&
        PrecedenceOf(&table) > PrecedenceOf(out.table)) {
      out.table = &table;
    }
  }
  if (const Json* const all = ObjectOfKey(entry, "parameters")) {
    for (const auto& [name, parameter] : all->items()) {
      if (parameter.is_object()) {
        module.parameters[name] = ShapeOfParameter(parameter);
      }
    }
  }
  if (const Json* const config = ObjectOfKey(entry, "config")) {
    for (const auto& [name, value] : config->items()) {
      if (value.is_number_integer()) {
        out.config.emplace(name, value.get<int64_t>());
      }
    }
  }
  out.modules.emplace(TextOfKey(entry, "op"), std::move(module));
}

void AddDocument(const TextFile& file, EngineRun& out,
                 std::map<std::string, std::string>& packages) {
  if (!CheckJson(file.name, file.text).ok()) return;
  const Json document = Json::parse(file.text, nullptr, false);
  if (!document.is_object()) return;
  if (const Json* const versions = ObjectOfKey(document, "packages")) {
    for (const auto& [name, version] : versions->items()) {
      if (version.is_string()) {
        packages.emplace(name, version.get<std::string>());
      }
    }
  }
  const auto modules = document.find("modules");
  if (modules == document.end() || !modules->is_array()) return;
  for (const Json& entry : *modules) {
    if (out.modules.size() == kModulesMax) return;
    if (entry.is_object()) AddModule(entry, out);
  }
}

EngineRun ReadDocuments(const std::vector<TextFile>& files) {
  EngineRun out;
  std::map<std::string, std::string> packages;
  for (const TextFile& file : files) {
    if (file.name == kModuleTreeDocument) AddDocument(file, out, packages);
  }
  if (out.table == nullptr) return out;
  for (const auto& [name, version] : packages) {
    if (name == out.table->package || BelongsTo(out.table->package, name)) {
      out.version = version;
    }
  }
  return out;
}

std::optional<int64_t> Lookup(const EngineRun& run, const EngineRun& other,
                              std::initializer_list<std::string_view> names) {
  for (const EngineRun* const side : {&run, &other}) {
    for (const std::string_view name : names) {
      const auto found = side->config.find(name);
      if (found != side->config.end() && found->second > 0 &&
          found->second <= kSizeMax) {
        return found->second;
      }
    }
  }
  return std::nullopt;
}

// Returns the first dimension of the weight of the first module whose op ends
// with `name`.
std::optional<int64_t> RowsOfWeight(const EngineRun& run,
                                    std::string_view name) {
  for (const auto& [op, module] : run.modules) {
    if (!op.ends_with(name)) continue;
    const auto weight = module.parameters.find("weight");
    if (weight == module.parameters.end() || weight->second.size() != 2) {
      continue;
    }
    return weight->second[0];
  }
  return std::nullopt;
}

}  // namespace

EngineRun ReadEngineRun(const RunFacts& run) {
  EngineRun out = ReadDocuments(run.files);
  if (out.table == nullptr) out.table = FindEngineTable(run.source);
  return out;
}

std::string EngineOf(const std::vector<TextFile>& files) {
  const EngineRun run = ReadDocuments(files);
  return run.table == nullptr ? "" : run.table->engine;
}

EngineSizes SizesOf(const EngineRun& run, const EngineRun& other) {
  EngineSizes out;
  const auto set = [&out](const char* name, std::optional<int64_t> value) {
    if (value.has_value()) out[name] = *value;
  };
  const auto hidden = Lookup(run, other, {"hidden_size"});
  const auto heads = Lookup(run, other, {"num_attention_heads"});
  auto groups = Lookup(run, other, {"num_key_value_heads", "num_query_groups"});
  if (!groups.has_value()) groups = heads;
  auto head = Lookup(run, other, {"head_dim", "kv_channels"});
  if (!head.has_value() && heads.has_value() && hidden.has_value() &&
      *hidden % *heads == 0) {
    head = *hidden / *heads;
  }
  set("head", head);
  if (heads.has_value() && head.has_value()) out["q"] = *heads * *head;
  if (groups.has_value() && head.has_value()) out["kv"] = *groups * *head;
  set("groups", groups);
  if (heads.has_value() && groups.has_value() && *heads % *groups == 0) {
    out["per_group"] = *heads / *groups;
  }
  // Without a configuration, separate projections state their sizes.
  for (const EngineRun* const side : {&run, &other}) {
    if (!out.contains("q")) set("q", RowsOfWeight(*side, ".q_proj"));
    if (!out.contains("kv")) set("kv", RowsOfWeight(*side, ".k_proj"));
  }
  set("q_lora", Lookup(run, other, {"q_lora_rank"}));
  const auto lora = Lookup(run, other, {"kv_lora_rank"});
  const auto rope =
      Lookup(run, other, {"qk_rope_head_dim", "qk_pos_emb_head_dim"});
  if (lora.has_value() && rope.has_value()) out["kv_a"] = *lora + *rope;
  const auto value = Lookup(run, other, {"v_head_dim"});
  if (heads.has_value() && (lora.has_value() ? value : head).has_value()) {
    out["o_in"] = *heads * *(lora.has_value() ? value : head);
  }
  return out;
}

int RanksOfLayer(const RunFacts& facts, const EngineRun& run,
                 const EngineSizes& sizes) {
  const auto full = sizes.find("o_in");
  if (full == sizes.end() || run.table == nullptr) return 1;
  const auto ranks_for = [&](int64_t held) {
    if (held <= 0 || full->second % held != 0) return 1;
    return static_cast<int>(std::min<int64_t>(full->second / held, kRanksMax));
  };
  const auto is_output = [&run](std::string_view op) {
    return ToCommonPath(*run.table, op).ends_with(kOutputProjection);
  };
  for (const auto& [op, module] : run.modules) {
    if (!is_output(op)) continue;
    const auto weight = module.parameters.find("weight");
    const bool is_matrix =
        weight != module.parameters.end() && weight->second.size() == 2;
    if (is_matrix) return ranks_for(weight->second[1]);
  }
  // The engine may have packed the weights.
  for (const OpFacts& op : facts.ops) {
    if (!is_output(op.op)) continue;
    const auto input = FindTensor(op, Io::kInput, "0");
    if (!input.has_value() || op.tensors[*input].shape.empty()) continue;
    return ranks_for(op.tensors[*input].shape.back());
  }
  return 1;
}

}  // namespace msitd::match
