// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/torch/module_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "client/foreign/match/json_text.h"
#include "client/foreign/match/limits.h"
#include "protos/base/digits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using Json = nlohmann::json;

// Layers have more siblings than this.
constexpr size_t kLayersMin = 10;

std::string TextAt(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

// Returns the list of children; null if there is none.
const Json* ListAt(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found == entry.end() || !found->is_array() ? nullptr : &*found;
}

absl::Status TooMany(std::string_view file) {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "{}: more than {} modules", file, kModulesMax);
}

ModuleNode TorchNode(const Json& entry) {
  ModuleNode out;
  out.name = TextAt(entry, "name");
  out.type = TextAt(entry, "type");
  out.op = out.name;
  return out;
}

ModuleNode AtbNode(const Json& entry, const std::string& above, size_t number) {
  ModuleNode out;
  out.name = TextAt(entry, "opName");
  out.type = TextAt(entry, "opType");
  out.op = fmt::format("{}{}{}_{}", above, above.empty() ? "" : "/", number,
                       out.type);
  const auto param = entry.find("param");
  if (param == entry.end() || !param->is_object()) return out;
  const auto bias = param->find("hasBias");
  out.has_bias =
      bias != param->end() && bias->is_boolean() && bias->get<bool>();
  const auto type = param->find("elewiseType");
  if (type != param->end() && type->is_number_integer()) {
    out.elewise_type = type->get<int64_t>();
  }
  return out;
}

// Adds the descendants of `number`. CheckJson limits their depth.
absl::Status AddTorch(std::string_view file, const Json& entry, size_t number,
                      ModuleTree& tree) {
  const Json* const children = ListAt(entry, "children");
  if (children == nullptr) return absl::OkStatus();
  for (const Json& child : *children) {
    if (!child.is_object()) continue;
    if (tree.size() == kModulesMax) return TooMany(file);
    const size_t added = tree.Add(number, TorchNode(child));
    MSITD_RETURN_IF_ERROR(AddTorch(file, child, added, tree));
  }
  return absl::OkStatus();
}

absl::Status AddAtb(std::string_view file, const Json& entry, size_t number,
                    size_t first, ModuleTree& tree) {
  const Json* const children = ListAt(entry, "nodes");
  if (children == nullptr) return absl::OkStatus();
  for (const Json& child : *children) {
    if (!child.is_object()) continue;
    if (tree.size() == kModulesMax) return TooMany(file);
    const std::string above = tree[number].op;
    const size_t added = tree.Add(number, AtbNode(child, above, first++));
    MSITD_RETURN_IF_ERROR(AddAtb(file, child, added, 0, tree));
  }
  return absl::OkStatus();
}

}  // namespace

size_t ModuleTree::Add(size_t parent, ModuleNode node) {
  const size_t number = nodes_.size();
  node.parent = parent;
  nodes_[parent].children.push_back(number);
  nodes_.push_back(std::move(node));
  return number;
}

template <typename Take>
void ModuleTree::Walk(size_t top, const Take& take) const {
  std::vector<size_t> left(nodes_[top].children.rbegin(),
                           nodes_[top].children.rend());
  while (!left.empty()) {
    const size_t number = left.back();
    left.pop_back();
    if (!take(number)) continue;
    const std::vector<size_t>& children = nodes_[number].children;
    left.insert(left.end(), children.rbegin(), children.rend());
  }
}

std::vector<size_t> ModuleTree::LeavesOf(size_t top) const {
  std::vector<size_t> out;
  Walk(top, [&](size_t number) {
    if (nodes_[number].children.empty()) out.push_back(number);
    return true;
  });
  return out;
}

std::vector<size_t> ModuleTree::AllOf(size_t top) const {
  std::vector<size_t> out = {top};
  Walk(top, [&](size_t number) {
    out.push_back(number);
    return true;
  });
  return out;
}

std::vector<size_t> ModuleTree::GrandchildrenOf(size_t top) const {
  std::vector<size_t> out;
  for (const size_t child : nodes_[top].children) {
    const std::vector<size_t>& children = nodes_[child].children;
    out.insert(out.end(), children.begin(), children.end());
  }
  return out;
}

size_t ModuleTree::NextSibling(size_t number) const {
  const std::vector<size_t>& all = nodes_[nodes_[number].parent].children;
  const auto found = std::find(all.begin(), all.end(), number);
  if (found == all.end() || found + 1 == all.end()) return 0;
  return found[1];
}

std::string ModuleTree::LayerType() const {
  std::string out;
  const auto look = [&](size_t number) {
    if (!out.empty()) return false;
    const std::vector<size_t>& children = nodes_[number].children;
    if (children.size() <= kLayersMin) return true;
    // The first of several equally common types.
    std::unordered_map<std::string_view, size_t> counts;
    for (const size_t child : children) ++counts[nodes_[child].type];
    size_t most = 0;
    for (const size_t child : children) {
      const size_t count = counts[nodes_[child].type];
      if (count <= most) continue;
      most = count;
      out = nodes_[child].type;
    }
    if (most <= kLayersMin / 2) out.clear();
    return false;
  };
  if (look(0)) Walk(0, look);
  return out;
}

std::vector<size_t> ModuleTree::Layers() const {
  std::vector<size_t> out;
  const std::string type = LayerType();
  if (type.empty()) return out;
  Walk(0, [&](size_t number) {
    if (nodes_[number].type != type) return true;
    out.push_back(number);
    return false;
  });
  return out;
}

std::vector<size_t> ModuleTree::FewLayers() const {
  std::vector<size_t> breadth = {0};
  for (size_t i = 0; i < breadth.size(); ++i) {
    std::unordered_map<std::string_view, std::vector<size_t>> by_type;
    const std::vector<size_t>* most = nullptr;
    for (const size_t child : nodes_[breadth[i]].children) {
      breadth.push_back(child);
      const ModuleNode& node = nodes_[child];
      const bool is_numbered = !node.name.empty() && node.name.back() >= '0' &&
                               node.name.back() <= '9';
      if (!is_numbered || node.type.empty() || node.children.empty()) continue;
      std::vector<size_t>& same = by_type[node.type];
      same.push_back(child);
      // The references remain valid. The first of equally common types wins.
      if (most == nullptr || same.size() > most->size()) most = &same;
    }
    if (most != nullptr && most->size() > 1) return *most;
  }
  return {};
}

absl::StatusOr<ModuleTree> ParseModelTree(std::string_view file,
                                          std::string_view text) {
  MSITD_RETURN_IF_ERROR(CheckJson(file, text));
  const Json json = Json::parse(text);
  if (!json.is_object() || TextAt(json, "name").empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: is not a tree of modules", file);
  }
  ModuleTree out;
  out[0] = TorchNode(json);
  MSITD_RETURN_IF_ERROR(AddTorch(file, json, 0, out));
  return out;
}

absl::StatusOr<bool> HasNodes(std::string_view file, std::string_view text) {
  MSITD_RETURN_IF_ERROR(CheckJson(file, text));
  const Json json = Json::parse(text);
  const Json* const nodes = json.is_object() ? ListAt(json, "nodes") : nullptr;
  return nodes != nullptr && !nodes->empty();
}

absl::StatusOr<ModuleTree> ParseTopology(std::string_view file,
                                         std::string_view text, size_t first) {
  MSITD_RETURN_IF_ERROR(CheckJson(file, text));
  const Json json = Json::parse(text);
  if (!json.is_object() || ListAt(json, "nodes") == nullptr) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: is not a topology", file);
  }
  ModuleTree out;
  out[0].name = "root";
  out[0].type = TextAt(json, "modelName");
  MSITD_RETURN_IF_ERROR(AddAtb(file, json, 0, first, out));
  return out;
}

size_t FirstNumberOf(const ModuleTree& topology) {
  if (topology[0].children.empty()) return 0;
  const std::string_view name = topology[topology[0].children.front()].name;
  // npos + 1 is 0.
  const std::string_view digits = name.substr(name.rfind('_') + 1);
  uint32_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  return error == std::errc() && stop == end ? number : 0;
}

ModuleTree TreeOfOps(const RunFacts& run) {
  ModuleTree out;
  out[0].name = "root";
  out[0].op = "root";
  std::unordered_map<std::string, size_t> by_name = {{"root", 0}};
  for (const OpFacts& op : run.ops) {
    for (size_t end = op.op.find('.'); out.size() < kModulesMax;
         end = op.op.find('.', end + 1)) {
      const std::string name = op.op.substr(0, end);
      const size_t dot = name.rfind('.');
      const std::string above =
          dot == std::string::npos ? "root" : name.substr(0, dot);
      const std::string last = name.substr(dot + 1);  // npos + 1 is 0.
      if (!by_name.contains(name)) {
        ModuleNode node;
        node.name = name;
        node.op = name;
        node.type = IsDigits(last) ? above : last;
        const size_t number = out.Add(by_name.at(above), std::move(node));
        by_name.emplace(name, number);
      }
      if (end == std::string::npos) break;
    }
  }
  return out;
}

absl::StatusOr<ModuleTree> TorchTreeOf(const RunFacts& run) {
  for (const TextFile& file : run.files) {
    if (file.name.ends_with(kModelTreeFile)) {
      return ParseModelTree(file.name, file.text);
    }
  }
  return TreeOfOps(run);
}

}  // namespace msitd::match
