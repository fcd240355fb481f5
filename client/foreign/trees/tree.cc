// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/tree.h"

#include <array>
#include <utility>

#include "client/foreign/trees/detect.h"
#include "client/foreign/trees/tree_folder.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr auto kKinds = std::to_array<std::pair<TreeKind, std::string_view>>({
    {TreeKind::kFiles, "files"},
    {TreeKind::kGe, "ge"},
    {TreeKind::kFx, "fx"},
    {TreeKind::kMindie, "mindie"},
    {TreeKind::kMsit, "msit"},
    {TreeKind::kAtb, "atb"},
    {TreeKind::kMsprobe, "msprobe"},
});

OpenedTree Open(const std::string& path, const TreeOptions& options) {
  MSITD_ASSIGN_OR_RETURN(const TreeFolder folder, TreeFolder::Open(path));
  std::optional<TreeKind> kind = options.kind;
  if (options.name_pattern.has_value() && !kind) kind = TreeKind::kFiles;
  MSITD_ASSIGN_OR_RETURN(const TreeReader reader,
                         kind ? ReaderOf(*kind) : DetectReader(folder));
  if (options.name_pattern.has_value() && reader.kind != TreeKind::kFiles) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "a pattern for names is only for files, not for {}",
                      TreeKindName(reader.kind));
  }
  if (!options.mapping_folder.empty() && reader.kind != TreeKind::kMindie) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "its format is {}: mappings in {} are only for mindie",
                      TreeKindName(reader.kind), options.mapping_folder);
  }
  return reader.open(folder, options);
}

}  // namespace

std::string_view TreeKindName(TreeKind kind) {
  for (const auto& [known, name] : kKinds) {
    if (known == kind) return name;
  }
  return "unknown";
}

std::optional<TreeKind> ParseTreeKind(std::string_view name) {
  for (const auto& [kind, known] : kKinds) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<Tree>> OpenTree(const std::string& path,
                                               const TreeOptions& options) {
  auto tree = Open(path, options);
  if (!tree.ok()) return Annotate(tree.status(), "open tree " + path);
  return tree;
}

}  // namespace msitd::trees
