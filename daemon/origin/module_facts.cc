// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/module_facts.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/origin/op_kinds.h"
#include "msitd/v1/module_tree.pb.h"
#include "protos/base/utf8.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"

namespace msitd::origin {
namespace {

constexpr std::string_view kDocumentName = "module_tree.json";

// A document is untrusted, so its parents may form a cycle.
constexpr int kDepthMax = 256;

}  // namespace

ModuleTree ModuleTree::Parse(std::string_view text) {
  ModuleTree tree;
  if (text.size() > kModuleTreeBytesMax || !IsValidUtf8(text)) return tree;
  v1::ModuleTreeDocument document;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &document,
      options);
  if (!parsed.ok() || document.modules_size() > kModulesMax) return tree;
  for (const v1::ModuleTreeDocument::Module& module : document.modules()) {
    ModuleFacts& facts = tree.modules_[module.op()];
    facts.module_class = module.class_();
    facts.parent = module.parent();
    facts.is_training = module.training();
    facts.parameters.clear();
    for (const auto& [name, parameter] : module.parameters()) {
      facts.parameters.push_back(
          {name, {parameter.shape().begin(), parameter.shape().end()}});
    }
  }
  // An op that is listed again has only its last parent, so modules form no
  // other graph than trees and cycles.
  for (const auto& [op, facts] : tree.modules_) {
    const auto parent = tree.modules_.find(facts.parent);
    if (parent == tree.modules_.end() || facts.parent == op) continue;
    parent->second.children.push_back(op);
  }
  for (auto& [op, facts] : tree.modules_) {
    std::sort(facts.children.begin(), facts.children.end());
  }
  return tree;
}

const ModuleFacts* ModuleTree::Find(std::string_view op) const {
  const auto found = modules_.find(std::string(op));
  return found == modules_.end() ? nullptr : &found->second;
}

bool ModuleTree::IsPlain(std::string_view op, int depth) const {
  const ModuleFacts* const facts = Find(op);
  if (facts == nullptr || depth == kDepthMax ||
      !IsPlainModule(facts->module_class)) {
    return false;
  }
  return std::all_of(
      facts->children.begin(), facts->children.end(),
      [&](const std::string& child) { return IsPlain(child, depth + 1); });
}

bool ModuleTree::HasParameters(std::string_view op, int depth) const {
  const ModuleFacts* const facts = Find(op);
  if (facts == nullptr) return false;
  if (depth == kDepthMax || !facts->parameters.empty()) return true;
  return std::any_of(facts->children.begin(), facts->children.end(),
                     [&](const std::string& child) {
                       return HasParameters(child, depth + 1);
                     });
}

absl::StatusOr<const ModuleTree*> ModuleTrees::Of(int32_t rank,
                                                  storage::StopCheck stop) {
  if (rank == rank_) return &tree_;
  tree_ = ModuleTree();
  rank_ = -1;
  Selector selector;
  selector.ranks = {rank};
  selector.tokens = {{0, 0}};
  selector.op_patterns = {std::string(kDocumentName)};
  selector.kinds = {RecordKind::kDocument};
  MSITD_ASSIGN_OR_RETURN(const auto scan, run_.Scan(selector, ""));
  std::optional<storage::TensorInfo> newest;
  storage::TensorInfo document;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(document, stop));
    if (!found) break;
    if (!newest.has_value() || document.key.call >= newest->key.call) {
      newest = document;
    }
  }
  rank_ = rank;
  if (!newest.has_value() || !newest->has_bytes ||
      newest->tensor_bytes > kModuleTreeBytesMax) {
    return &tree_;
  }
  std::string text;
  AlignedBuffer buffer;
  for (const storage::PartInfo& part : newest->parts) {
    const auto bytes = run_.ReadPart(part, buffer);
    if (absl::IsUnavailable(bytes.status())) return bytes.status();
    if (!bytes.ok()) return &tree_;
    text.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  tree_ = ModuleTree::Parse(text);
  return &tree_;
}

}  // namespace msitd::origin
