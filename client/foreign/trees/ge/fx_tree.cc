// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/ge/fx_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/token_tree.h"
#include "protos/base/digits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

// The number of folders from that of a rank to that of a step.
constexpr size_t kFxFoldersMax = 4;

// Longer numbers are times.
constexpr size_t kStepDigitsMax = 11;

struct GraphFolder {
  int32_t rank = 0;
  int32_t world_size = 0;
  int64_t token = 0;
  // The name of its folder, which is a time in older layouts.
  std::string graph;
  bool is_time = false;
};

bool IsStep(const std::string& name) {
  return name.size() <= kStepDigitsMax && IsDigits(name);
}

// Determines the meaning of the folders that contain the files of `relative`.
GraphFolder PlaceOf(const TreeFolder& folder, const std::string& relative) {
  const std::vector<std::string> names = NamesOf(folder.above(), relative);
  const bool is_root = relative.empty();
  GraphFolder place;
  for (size_t up = std::min(names.size(), kFxFoldersMax); up > 0; --up) {
    if (const auto rank = ParseRankFolder(names[names.size() - up])) {
      place.rank = rank->rank;
      place.world_size = rank->world_size;
    }
  }
  const std::string leaf = names.empty() ? "" : names.back();
  const std::string parent = names.size() < 2 ? "" : names[names.size() - 2];
  if (IsStep(leaf)) {
    place.token = ParseNumber(leaf).value_or(0);
    place.graph = parent;
    return place;
  }
  place.graph = leaf;
  place.is_time = true;
  // Steps of these layouts begin at 1, tokens at 0.
  if (IsStep(parent) && (!is_root || IsGmFolder(leaf))) {
    place.token = ParseNumber(parent).value_or(0) - 1;
  }
  return place;
}

class FxTree final : public TokenTree {
 public:
  FxTree(const TreeFolder& folder, const TreeOptions& options)
      : TokenTree(TreeKind::kFx, folder),
        names_graphs_(options.names_graphs),
        devices_are_ranks_(options.devices_are_ranks),
        device_rank_(options.device_rank) {}

  absl::Status Open();
  std::set<std::string> graphs() const override;

 private:
  struct Folder {
    std::string path;
    GraphFolder place;
    // The prefix of the ops of its graph.
    std::string prefix;
  };
  struct Item {
    size_t folder;
    std::string file;
    FxFileName name;
  };
  // The last call of an op, and an item of it.
  struct LastCall {
    int32_t call = -1;
    size_t item = 0;
  };

  size_t ListToken(const TokenPlace& place,
                   const std::vector<size_t>& folders) override;
  bool MakeEntry(size_t item, TreeEntry* entry) override;

  void Visit(const std::string& path, Listing* listing);
  void NameGraphs();
  std::string PathOf(const Item& item) const;
  void ListFolder(size_t number);
  void DropConverted();

  const bool names_graphs_;
  const bool devices_are_ranks_;
  const std::optional<int32_t> device_rank_;
  std::vector<Folder> folders_;
  // The items of the token that is being read.
  std::vector<Item> items_;
  std::map<std::string, LastCall> calls_;
};

bool IsFxName(const std::string& name) {
  return ParseFxFileName(name).has_value();
}

void FxTree::Visit(const std::string& path, Listing* listing) {
  if (std::any_of(listing->files.begin(), listing->files.end(), IsFxName)) {
    GraphFolder place = PlaceOf(root(), path);
    if (place.token >= 0) {
      TakeWorldSize(place.world_size, root().PathOf(path));
      folders_.push_back({path, std::move(place), ""});
      return;
    }
    AddProblem(
        root().PathOf(path),
        absl::InvalidArgumentError("step 0: steps of this layout begin at 1"));
    return;
  }
  AddProblems(std::move(listing->problems));
  for (const std::string& file : listing->files) {
    AddProblem(root().PathOf(JoinPath(path, file)),
               absl::InvalidArgumentError("its name is not that of a dump"));
  }
}

// Numbers graphs whose folders have a time as their name in this order: over
// all steps if each step has the same names, and otherwise in each step.
void FxTree::NameGraphs() {
  std::map<int32_t, std::set<std::string>> of_rank;
  std::map<TokenPlace, std::set<std::string>> of_token;
  size_t most_of_token = 0;
  size_t most_of_rank = 0;
  size_t most_with_names = 0;
  for (const Folder& folder : folders_) {
    const GraphFolder& place = folder.place;
    auto& in_rank = of_rank[place.rank];
    in_rank.insert(place.graph);
    if (!place.is_time) {
      most_with_names = std::max(most_with_names, in_rank.size());
      continue;
    }
    most_of_rank = std::max(most_of_rank, in_rank.size());
    auto& in_token = of_token[{place.rank, place.token}];
    in_token.insert(place.graph);
    most_of_token = std::max(most_of_token, in_token.size());
  }
  const bool is_named =
      names_graphs_ &&
      std::all_of(folders_.begin(), folders_.end(), [](const Folder& folder) {
        return !folder.place.is_time && IsGraphFolder(folder.place.graph);
      });
  // Set when the previous ranks are no longer used.
  std::vector<std::pair<Folder*, int32_t>> ranks;
  for (Folder& folder : folders_) {
    const GraphFolder& place = folder.place;
    if (!place.is_time) {
      if (most_with_names > 1 || is_named) folder.prefix = place.graph;
      continue;
    }
    if (most_of_token < 2) continue;
    const auto& graphs = most_of_rank == most_of_token
                             ? of_rank[place.rank]
                             : of_token[{place.rank, place.token}];
    const auto at = std::distance(graphs.begin(), graphs.find(place.graph));
    if (devices_are_ranks_ && place.world_size == 0) {
      ranks.emplace_back(&folder, static_cast<int32_t>(at));
      continue;
    }
    folder.prefix =
        fmt::format("{}{}", names_graphs_ ? "gm/" : "graph_", at + 1);
  }
  for (const auto& [folder, rank] : ranks) folder->place.rank = rank;
  if (devices_are_ranks_ && device_rank_.has_value()) {
    std::erase_if(folders_, [this](const Folder& folder) {
      return folder.place.rank != *device_rank_;
    });
  }
}

std::set<std::string> FxTree::graphs() const {
  std::set<std::string> out;
  for (const Folder& folder : folders_) {
    const GraphFolder& place = folder.place;
    if (!place.is_time && IsGraphFolder(place.graph)) out.insert(place.graph);
  }
  return out;
}

absl::Status FxTree::Open() {
  MSITD_RETURN_IF_ERROR(
      WalkFolders(root(), [&](const std::string& path, Listing* listing) {
        Visit(path, listing);
        return absl::OkStatus();
      }));
  NameGraphs();
  std::map<TokenPlace, std::vector<size_t>> tokens;
  for (size_t i = 0; i < folders_.size(); ++i) {
    const GraphFolder& place = folders_[i].place;
    tokens[{place.rank, place.token}].push_back(i);
  }
  SetFolders(std::move(tokens));
  return absl::OkStatus();
}

std::string FxTree::PathOf(const Item& item) const {
  return root().PathOf(JoinPath(folders_[item.folder].path, item.file));
}

void FxTree::ListFolder(size_t number) {
  const Folder& folder = folders_[number];
  Listing listing = root().List(folder.path);
  AddProblems(std::move(listing.problems));
  for (std::string& file : listing.files) {
    auto name = ParseFxFileName(file);
    if (!name.has_value()) {
      AddProblem(root().PathOf(JoinPath(folder.path, file)),
                 absl::InvalidArgumentError("its name is not that of a dump"));
      continue;
    }
    name->op = JoinPath(folder.prefix, name->op);
    items_.push_back({number, std::move(file), *std::move(name)});
  }
}

// A tensor occurs twice if it was converted before its dump was removed.
void FxTree::DropConverted() {
  std::vector<Item> kept;
  for (Item& item : items_) {
    const bool is_twice = item.name.is_min_max && !kept.empty() &&
                          kept.back().folder == item.folder &&
                          kept.back().name.op == item.name.op &&
                          kept.back().name.time == item.name.time &&
                          kept.back().name.io == item.name.io &&
                          kept.back().name.index == item.name.index;
    if (!is_twice) {
      kept.push_back(std::move(item));
      continue;
    }
    AddProblem(PathOf(item),
               absl::AlreadyExistsError(
                   "the dump that it was made from is next to it"));
  }
  items_ = std::move(kept);
}

size_t FxTree::ListToken(const TokenPlace& /*place*/,
                         const std::vector<size_t>& folders) {
  items_.clear();
  calls_.clear();
  for (const size_t number : folders) ListFolder(number);
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    if (a.name.time != b.name.time) {
      return NaturalLess(a.name.time, b.name.time);
    }
    const auto call = [](const Item& item) {
      return std::tie(item.name.op, item.folder, item.name.io);
    };
    if (call(a) != call(b)) return call(a) < call(b);
    if (a.name.index != b.name.index) {
      return NaturalLess(a.name.index, b.name.index);
    }
    return a.name.is_min_max < b.name.is_min_max;
  });
  DropConverted();
  return items_.size();
}

bool FxTree::MakeEntry(size_t number, TreeEntry* entry) {
  const Item& item = items_[number];
  entry->file = PathOf(item);
  TensorKey& key = entry->key;
  key.op = item.name.op;
  key.io = item.name.io;
  key.index = item.name.index;
  LastCall& last = calls_[key.op];
  const Item& before = items_[last.item];
  if (last.call < 0 || before.name.time != item.name.time ||
      before.folder != item.folder) {
    ++last.call;
  }
  last.item = number;
  key.call = last.call;
  return true;
}

}  // namespace

bool LooksLikeFx(const TreeSample& sample) {
  return std::any_of(sample.folders.begin(), sample.folders.end(),
                     [](const SampledFolder& folder) {
                       return std::any_of(folder.files.begin(),
                                          folder.files.end(), IsFxName);
                     });
}

OpenedTree OpenFxTree(const TreeFolder& folder, const TreeOptions& options) {
  auto tree = std::make_unique<FxTree>(folder, options);
  MSITD_RETURN_IF_ERROR(tree->Open());
  return tree;
}

}  // namespace msitd::trees
