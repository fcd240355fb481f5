// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/ge/ge_tree.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/ge/ge_place.h"
#include "client/foreign/trees/ge/ge_task.h"
#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/token_tree.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr std::string_view kMindieModel = "Graph";
// The prefix of the graphs that TorchAir writes, in several formats.
constexpr std::string_view kGraphPrefix = "dynamo_";
constexpr auto kMindieMappings = std::to_array<std::string_view>(
    {"mindie_rt_op_mapping.json", "mindie_torch_op_mapping.json"});

// The number of folders from that of a rank to that of a token.
constexpr size_t kGeFoldersMax = 7;

bool IsMindieMapping(std::string_view name) {
  return std::find(kMindieMappings.begin(), kMindieMappings.end(), name) !=
         kMindieMappings.end();
}

bool IsDumpName(const std::string& name) {
  return ParseGeFileName(name).has_value() ||
         ParseLongNameNumber(name).has_value();
}

class GeTree final : public TokenTree {
 public:
  GeTree(TreeKind kind, const TreeFolder& folder, const TreeOptions& options)
      : TokenTree(kind, folder),
        mapping_folder_(kind == TreeKind::kMindie ? options.mapping_folder
                                                  : std::string()),
        may_lack_mappings_(options.may_lack_mappings),
        names_graphs_(options.names_graphs),
        devices_are_ranks_(options.devices_are_ranks),
        device_rank_(options.device_rank) {}

  absl::Status Open();
  std::set<std::string> graphs() const override;

 private:
  struct Folder {
    std::string path;
    GePlace place;
  };
  struct Item {
    size_t folder;
    std::string file;
    GeFileName name;
  };

  size_t ListToken(const TokenPlace& place,
                   const std::vector<size_t>& folders) override;
  bool MakeEntry(size_t item, TreeEntry* entry) override;

  // Returns true for a file that is attached if it is in the tree or above it.
  bool IsAttachment(const std::string& file) const;
  // Finds both mappings in the folder that the user specified.
  absl::Status FindMappings();
  void AttachFound();
  void Visit(const std::string& path, Listing* listing);
  // Assigns ranks to devices, as TreeOptions describes.
  void RankDevices();
  // Keeps the graphs of one of `rank_count` ranks, if each rank has its own.
  void KeepGraphsOf(int32_t rank, size_t rank_count);
  void CheckPlaces();
  void FindAbove();
  void ListFolder(size_t number);
  LongNames ReadLongNames(const std::string& path);
  std::optional<GeFileName> NameOf(const std::string& file,
                                   const LongNames& long_names) const;
  void DropConverted();

  const std::string mapping_folder_;
  const bool may_lack_mappings_;
  const bool names_graphs_;
  const bool devices_are_ranks_;
  const std::optional<int32_t> device_rank_;
  std::vector<Folder> folders_;
  // Names and paths of the files to attach.
  std::vector<std::pair<std::string, std::string>> found_;
  bool has_graphs_ = false;
  // The items of the token that is being read.
  std::vector<Item> items_;
  GeCalls calls_;
};

bool GeTree::IsAttachment(const std::string& file) const {
  return IsGraphText(file) ||
         (kind() == TreeKind::kMindie && mapping_folder_.empty() &&
          IsMindieMapping(file));
}

absl::Status GeTree::FindMappings() {
  if (mapping_folder_.empty()) return absl::OkStatus();
  const absl::Status there = CheckMappingFolder(mapping_folder_);
  if (!there.ok()) return may_lack_mappings_ ? absl::OkStatus() : there;
  for (const std::string_view name : kMindieMappings) {
    found_.emplace_back(name, JoinPath(mapping_folder_, name));
  }
  return absl::OkStatus();
}

// The number of attachments of a run is limited, so the graphs that are used
// for matching ops are attached first.
void GeTree::AttachFound() {
  std::stable_partition(found_.begin(), found_.end(), [](const auto& found) {
    return !found.first.starts_with("dynamo_optimized_");
  });
  for (auto& [name, path] : found_) {
    const bool is_json = name.ends_with(".json");
    AddAttachment({std::move(name), std::move(path),
                   is_json ? "application/json" : "text/plain"});
  }
  found_.clear();
}

void GeTree::Visit(const std::string& path, Listing* listing) {
  const bool has_dumps =
      std::any_of(listing->files.begin(), listing->files.end(), IsDumpName);
  for (const std::string& file : listing->files) {
    const std::string relative = JoinPath(path, file);
    if (IsAttachment(file)) {
      found_.emplace_back(file, root().PathOf(relative));
    } else if (kind() == TreeKind::kMindie && IsMindieMapping(file)) {
      // The user specified another one.
      continue;
    } else if (!has_dumps && file != kLongNamesFile) {
      AddProblem(root().PathOf(relative),
                 absl::InvalidArgumentError("its name is not that of a dump"));
    }
  }
  if (has_dumps) {
    folders_.push_back({path, GePlaceOf(NamesOf(root().above(), path))});
    TakeWorldSize(folders_.back().place.world_size, root().PathOf(path));
  } else {
    AddProblems(std::move(listing->problems));
  }
}

std::set<std::string> GeTree::graphs() const {
  std::set<std::string> out;
  for (const Folder& folder : folders_) {
    const GePlace& place = folder.place;
    if (!IsGraphFolder(place.model)) continue;
    out.insert(JoinPath(place.model, place.model_id));
  }
  return out;
}

void GeTree::RankDevices() {
  const bool has_ranks = std::any_of(
      folders_.begin(), folders_.end(),
      [](const Folder& folder) { return folder.place.world_size > 0; });
  if (!devices_are_ranks_ || has_ranks) return;
  const auto less = [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  };
  std::set<std::string, decltype(less)> devices(less);
  for (const Folder& folder : folders_) devices.insert(folder.place.device);
  for (Folder& folder : folders_) {
    folder.place.rank = static_cast<int32_t>(
        std::distance(devices.begin(), devices.find(folder.place.device)));
  }
  if (!device_rank_.has_value()) return;
  std::erase_if(folders_, [this](const Folder& folder) {
    return folder.place.rank != *device_rank_;
  });
  KeepGraphsOf(*device_rank_, devices.size());
}

void GeTree::KeepGraphsOf(int32_t rank, size_t rank_count) {
  std::set<int64_t> ranks;
  for (const auto& [name, path] : found_) {
    const auto of_file = RankOfGraphText(name);
    if (of_file.has_value()) ranks.insert(*of_file);
  }
  if (ranks.size() != rank_count) return;
  if (rank < 0 || static_cast<size_t>(rank) >= rank_count) return;
  const int64_t own = *std::next(ranks.begin(), rank);
  std::erase_if(found_, [own](const auto& found) {
    return RankOfGraphText(found.first).value_or(own) != own;
  });
}

// Reports dumps that would be mixed because they are in the same folder.
void GeTree::CheckPlaces() {
  std::map<std::pair<int32_t, std::string>,
           std::set<std::pair<std::string, std::string>>>
      graphs;
  std::map<std::tuple<int32_t, std::string, std::string, std::string, int64_t>,
           const Folder*>
      tokens;
  std::set<std::pair<std::string, std::string>> mixed;
  has_graphs_ =
      names_graphs_ && !folders_.empty() &&
      std::all_of(folders_.begin(), folders_.end(), [](const Folder& folder) {
        return IsGraphFolder(folder.place.model);
      });
  for (const Folder& folder : folders_) {
    const GePlace& place = folder.place;
    auto& of_device = graphs[{place.rank, place.device}];
    of_device.emplace(place.model, place.model_id);
    has_graphs_ = has_graphs_ || of_device.size() > 1;
    const auto [other, is_new] = tokens.try_emplace(
        {place.rank, place.device, place.model, place.model_id, place.token},
        &folder);
    const std::string& time = other->second->place.time;
    if (!is_new && mixed.emplace(time, place.time).second) {
      AddProblem(root().PathOf(folder.path),
                 MakeStatus(absl::StatusCode::kAlreadyExists,
                            "another dump of the same tokens is in {}: ops of "
                            "both become calls of one op",
                            root().PathOf(other->second->path)));
    }
  }
}

// Finds graphs and mappings above the folder of a rank or a time, which may be
// opened by itself or through a folder in it.
void GeTree::FindAbove() {
  std::vector<std::string> names = root().above();
  size_t levels = 0;
  for (size_t up = 1; up <= std::min(names.size(), kGeFoldersMax); ++up) {
    const std::string& name = names[names.size() - up];
    if (ParseRankFolder(name).has_value() || IsTimeFolder(name)) levels = up;
  }
  // MindIE writes its mappings to its working directory, which is the folder of
  // its dumps or above it.
  if (kind() == TreeKind::kMindie) ++levels;
  while (levels-- > 0 && names.size() > 1 && found_.empty()) {
    const auto rank = ParseRankFolder(names.back());
    names.pop_back();
    std::string path;
    for (const std::string& name : names) path += "/" + name;
    const auto above = TreeFolder::Open(path);
    if (!above.ok()) return;
    for (const std::string& file : above->List("").files) {
      const auto rank_of_file = RankOfGraphText(file);
      const bool is_other = rank_of_file.has_value() && rank.has_value() &&
                            *rank_of_file != rank->rank;
      if (IsAttachment(file) && !is_other) {
        found_.emplace_back(file, above->PathOf(file));
      }
    }
  }
}

absl::Status GeTree::Open() {
  MSITD_RETURN_IF_ERROR(
      WalkFolders(root(), [&](const std::string& path, Listing* listing) {
        Visit(path, listing);
        return absl::OkStatus();
      }));
  FindAbove();
  RankDevices();
  MSITD_RETURN_IF_ERROR(FindMappings());
  AttachFound();
  CheckPlaces();
  std::map<TokenPlace, std::vector<size_t>> tokens;
  for (size_t i = 0; i < folders_.size(); ++i) {
    const GePlace& place = folders_[i].place;
    tokens[{place.rank, place.token}].push_back(i);
  }
  SetFolders(std::move(tokens));
  return absl::OkStatus();
}

LongNames GeTree::ReadLongNames(const std::string& path) {
  const auto text = ReadSmallFile(path, kLongNamesBytesMax);
  if (!text.ok()) {
    AddProblem(path, text.status());
    return {};
  }
  std::vector<absl::Status> problems;
  LongNames names = ParseLongNames(*text, &problems);
  for (absl::Status& problem : problems) AddProblem(path, std::move(problem));
  return names;
}

std::optional<GeFileName> GeTree::NameOf(const std::string& file,
                                         const LongNames& long_names) const {
  const auto number = ParseLongNameNumber(file);
  if (!number.has_value()) return ParseGeFileName(file);
  const auto long_name = long_names.find(number->number);
  if (long_name == long_names.end()) return std::nullopt;
  std::string name = long_name->second;
  // The name in the list may already have the suffix.
  if (!name.ends_with(number->suffix)) name += number->suffix;
  return ParseGeFileName(name);
}

void GeTree::ListFolder(size_t number) {
  const Folder& folder = folders_[number];
  Listing listing = root().List(folder.path);
  AddProblems(std::move(listing.problems));
  LongNames long_names;
  if (std::binary_search(listing.files.begin(), listing.files.end(),
                         kLongNamesFile)) {
    long_names =
        ReadLongNames(root().PathOf(JoinPath(folder.path, kLongNamesFile)));
  }
  for (std::string& file : listing.files) {
    if (IsAttachment(file) || file == kLongNamesFile) continue;
    auto name = NameOf(file, long_names);
    if (name.has_value()) {
      items_.push_back({number, std::move(file), *std::move(name)});
      continue;
    }
    const bool is_number = ParseLongNameNumber(file).has_value();
    AddProblem(root().PathOf(JoinPath(folder.path, file)),
               absl::InvalidArgumentError(
                   is_number ? "mapping.csv has no name of a dump for it"
                             : "its name is not that of a dump"));
  }
}

// A task occurs twice if it was converted before its dump was removed.
void GeTree::DropConverted() {
  const auto order = [](const Item& a, const Item& b) {
    return CompareGeTasks(a.name, a.folder, b.name, b.folder);
  };
  const auto less = [&](const Item& a, const Item& b) {
    if (order(a, b) != 0) return order(a, b) < 0;
    if (a.name.form != b.name.form) return a.name.form < b.name.form;
    if (a.name.io != b.name.io) return a.name.io < b.name.io;
    if (a.name.index != b.name.index) {
      return NaturalLess(a.name.index, b.name.index);
    }
    return a.file < b.file;
  };
  std::sort(items_.begin(), items_.end(), less);
  std::vector<Item> kept;
  for (Item& item : items_) {
    const bool is_converted =
        item.name.form == GeForm::kMinMax || item.name.form == GeForm::kArray;
    if (is_converted && !kept.empty() &&
        kept.back().name.form == GeForm::kDump &&
        order(kept.back(), item) == 0) {
      AddProblem(root().PathOf(JoinPath(folders_[item.folder].path, item.file)),
                 absl::AlreadyExistsError(
                     "the dump that it was made from is next to it"));
      continue;
    }
    kept.push_back(std::move(item));
  }
  items_ = std::move(kept);
}

size_t GeTree::ListToken(const TokenPlace& /*place*/,
                         const std::vector<size_t>& folders) {
  items_.clear();
  calls_ = GeCalls();
  for (const size_t number : folders) ListFolder(number);
  DropConverted();
  return items_.size();
}

bool GeTree::MakeEntry(size_t number, TreeEntry* entry) {
  const Item& item = items_[number];
  const Folder& folder = folders_[item.folder];
  entry->file = root().PathOf(JoinPath(folder.path, item.file));
  TensorKey& key = entry->key;
  key.device = folder.place.device;
  key.io = item.name.io;
  key.index = item.name.index;
  std::string op = item.name.op_name;
  absl::Status opened;
  if (item.name.form == GeForm::kDump) {
    auto file = formats::OpenTensorFile(entry->file, {});
    opened = file.status();
    if (file.ok()) {
      entry->opened = *std::move(file);
      const auto& attributes = entry->opened->attributes();
      const auto name = attributes.find("op_name");
      if (name != attributes.end()) op = GeOpOf(name->second, op);
    }
  }
  key.op = GeOpInRun(folder.place, op, has_graphs_);
  key.call = calls_.Next(key.device, key.op, item.name, item.folder);
  if (!opened.ok()) {
    AddProblem(entry->file, std::move(opened));
    return false;
  }
  return true;
}

OpenedTree OpenAs(TreeKind kind, const TreeFolder& folder,
                  const TreeOptions& options) {
  auto tree = std::make_unique<GeTree>(kind, folder, options);
  MSITD_RETURN_IF_ERROR(tree->Open());
  return tree;
}

// Returns true if a folder of the sample has dumps of MindIE, or of other
// tools.
bool HasDumps(const TreeSample& sample, bool of_mindie) {
  return std::any_of(
      sample.folders.begin(), sample.folders.end(),
      [&](const SampledFolder& folder) {
        if (std::none_of(folder.files.begin(), folder.files.end(),
                         IsSurelyGeFileName)) {
          return false;
        }
        const GePlace place = GePlaceOf(NamesOf(sample.above, folder.path));
        return (place.model == kMindieModel) == of_mindie;
      });
}

// Returns true if there is a graph, and no other files than those that TorchAir
// writes with it. A graph may have been copied to files that GE did not dump.
bool HasGraphsAlone(const TreeSample& sample) {
  bool has_graph = false;
  for (const SampledFolder& folder : sample.folders) {
    for (const std::string& file : folder.files) {
      if (IsGraphText(file)) {
        has_graph = true;
      } else if (!file.starts_with(kGraphPrefix)) {
        return false;
      }
    }
  }
  return has_graph;
}

}  // namespace

absl::Status CheckMappingFolder(const std::string& folder) {
  for (const std::string_view name : kMindieMappings) {
    // The user specified the folder, so a link in it may point to any file.
    std::error_code error;
    if (std::filesystem::is_regular_file(JoinPath(folder, name), error)) {
      continue;
    }
    return MakeStatus(absl::StatusCode::kNotFound, "there is no {} in {}", name,
                      folder);
  }
  return absl::OkStatus();
}

bool LooksLikeGe(const TreeSample& sample) {
  return HasDumps(sample, /*of_mindie=*/false) || HasGraphsAlone(sample);
}

OpenedTree OpenGeTree(const TreeFolder& folder, const TreeOptions& options) {
  return OpenAs(TreeKind::kGe, folder, options);
}

bool LooksLikeMindie(const TreeSample& sample) {
  return HasDumps(sample, /*of_mindie=*/true);
}

OpenedTree OpenMindieTree(const TreeFolder& folder,
                          const TreeOptions& options) {
  return OpenAs(TreeKind::kMindie, folder, options);
}

}  // namespace msitd::trees
