// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msit/module_tree.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "client/foreign/write/writer/json_writer.h"

namespace msitd::write {
namespace {

using Json = nlohmann::json;

constexpr int kNestingMax = 256;

std::string TextAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

std::string ParametersOf(const Json& module) {
  const auto found = module.find("parameters");
  if (found == module.end() || !found->is_object() || found->empty()) return "";
  // Invalid UTF-8 is replaced, because the text is written as it is.
  return found->dump(-1, ' ', /*ensure_ascii=*/true,
                     Json::error_handler_t::replace);
}

void Add(std::string op, std::string type, std::string parent,
         std::string parameters, ModuleTree& out) {
  type.erase(0, type.rfind('.') + 1);
  if (!out.by_op.try_emplace(op, out.modules.size()).second) return;
  out.modules.push_back({std::move(op), std::move(type), std::move(parent),
                         std::move(parameters)});
}

// Adds a node of msit: `{"name", "type", "children"}`.
void AddBranch(const Json& node, const std::string& parent, int depth,
               ModuleTree& out) {
  if (!node.is_object() || depth == kNestingMax) return;
  const std::string op = TextAt(node, "name");
  Add(op, TextAt(node, "type"), parent, ParametersOf(node), out);
  const auto children = node.find("children");
  if (children == node.end() || !children->is_array()) return;
  for (const Json& child : *children) AddBranch(child, op, depth + 1, out);
}

using Children = std::vector<std::vector<size_t>>;

void WriteBranch(const ModuleTree& tree, const Children& children, size_t at,
                 int depth, JsonWriter& out) {
  const ModuleTree::Module& module = tree.modules[at];
  out.BeginObject().Field("name", module.op).Field("type", module.type);
  if (!module.parameters.empty()) {
    out.Key("parameters").Raw(module.parameters);
  }
  out.Key("children").BeginList();
  if (depth < kNestingMax) {
    for (const size_t child : children[at]) {
      WriteBranch(tree, children, child, depth + 1, out);
    }
  }
  out.EndList().EndObject();
}

}  // namespace

std::string_view ModuleTree::TypeOf(std::string_view op) const {
  const auto found = by_op.find(op);
  return found == by_op.end() ? std::string_view()
                              : modules[found->second].type;
}

ModuleTree ParseModuleTree(std::string_view document) {
  ModuleTree out;
  if (document.size() > kTreeBytesMax) return out;
  // Discards a member that is long and not needed.
  const auto keeps = [](int depth, Json::parse_event_t event, Json& value) {
    return event != Json::parse_event_t::key || depth < 2 || value != "buffers";
  };
  const Json json = Json::parse(document, keeps, /*allow_exceptions=*/false);
  if (!json.is_object()) return out;
  const auto modules = json.find("modules");
  if (modules == json.end()) {
    out.is_of_msit = json.contains("children");
    if (out.is_of_msit) AddBranch(json, "", 0, out);
    return out;
  }
  if (!modules->is_array()) return out;
  for (const Json& module : *modules) {
    if (!module.is_object()) continue;
    Add(TextAt(module, "op"), TextAt(module, "class"), TextAt(module, "parent"),
        ParametersOf(module), out);
  }
  return out;
}

std::string MsitModelTree(const ModuleTree& tree) {
  Children children(tree.modules.size());
  for (size_t i = 0; i < tree.modules.size(); ++i) {
    const auto parent = tree.by_op.find(tree.modules[i].parent);
    // A parent precedes its children, so there is no cycle.
    if (parent != tree.by_op.end() && parent->second < i) {
      children[parent->second].push_back(i);
    }
  }
  JsonWriter out(/*indent=*/0);
  if (!tree.modules.empty()) WriteBranch(tree, children, 0, 0, out);
  return out.Take();
}

}  // namespace msitd::write
