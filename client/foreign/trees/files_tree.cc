// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/files_tree.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/names/call_order.h"
#include "client/foreign/names/export_index.h"
#include "client/foreign/trees/file_place.h"
#include "client/foreign/trees/index_tree.h"
#include "client/foreign/trees/tree_base.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr size_t kSuffixBytesMax = 16;

// The op of a tensor of which only the rank and the token are known.
constexpr std::string_view kUnnamedOp = "tensor";

// Removes a suffix such as `.npy`, but not one that begins with a digit, such
// as the time in the name of a dump.
std::string WithoutSuffix(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot == 0 || path[dot - 1] == '/') return path;
  const std::string_view suffix = std::string_view(path).substr(dot + 1);
  if (suffix.empty() || suffix.size() > kSuffixBytesMax) return path;
  const char first = suffix[0];
  const bool is_word =
      (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
  const bool has_slash = suffix.find('/') != std::string_view::npos;
  return is_word && !has_slash ? path.substr(0, dot) : path;
}

class FilesTree final : public TreeBase {
 public:
  FilesTree(const TreeFolder& folder, const TreeOptions& options)
      : TreeBase(TreeKind::kFiles, folder),
        is_rank_said_(options.is_rank_said),
        pattern_(options.name_pattern),
        keeps_first_place_(options.keeps_first_place),
        is_part_(folder.is_part() || folder.is_single_file()) {
    set_has_known_order(options.is_in_order);
  }

  absl::Status Open() {
    MSITD_RETURN_IF_ERROR(
        WalkFolders(root(), [this](const std::string& path, Listing* listing) {
          AddProblems(std::move(listing->problems));
          for (const std::string& name : listing->files) {
            AddFile(JoinPath(path, name));
          }
          return absl::OkStatus();
        }));
    if (!pattern_.has_value()) LeaveOutRanks();
    std::sort(files_.begin(), files_.end(), [](const File& a, const File& b) {
      if (a.place.rank != b.place.rank) return a.place.rank < b.place.rank;
      if (a.place.token != b.place.token) return a.place.token < b.place.token;
      if (a.place.op != b.place.op) {
        return names::EndsBefore(a.place.op, b.place.op);
      }
      const auto key = [](const File& file) {
        return std::tie(file.call, file.io, file.index);
      };
      if (key(a) != key(b)) return key(a) < key(b);
      return names::EndsBefore(a.path, b.path);
    });
    if (pattern_.has_value()) MSITD_RETURN_IF_ERROR(CheckPlaces());
    std::set<int32_t> ranks;
    for (const File& file : files_) ranks.insert(file.place.rank);
    if (ranks.empty()) ranks.insert(0);
    set_ranks({ranks.begin(), ranks.end()});
    return absl::OkStatus();
  }

  const TreeEntry* Next() override {
    while (next_file_ < files_.size()) {
      if (MakeEntry(files_[next_file_++])) return &entry_;
    }
    return nullptr;
  }

 private:
  struct File {
    std::string path;  // Relative to the tree.
    FilePlace place;
    // Unspecified without a pattern for names.
    int32_t call = 0;
    Io io = Io::kUnspecified;
    std::string index = {};
  };

  void AddFile(std::string path) {
    if (files_.size() == kTreeFilesMax) {
      AddProblem(root().PathOf(path),
                 MakeStatus(absl::StatusCode::kResourceExhausted,
                            "it is not read: the tree has more than {} files",
                            kTreeFilesMax));
      return;
    }
    if (pattern_.has_value()) {
      AddNamedFile(std::move(path));
      return;
    }
    FilePlace place = ReadFilePlace(WithoutSuffix(path));
    files_.push_back({std::move(path), std::move(place)});
  }

  void AddNamedFile(std::string path) {
    auto named = MatchFilePath(*pattern_, path);
    if (!named.has_value()) {
      AddProblem(root().PathOf(path),
                 MakeStatus(absl::StatusCode::kInvalidArgument,
                            "its name does not match the pattern"));
      return;
    }
    File file;
    file.path = std::move(path);
    file.place.rank = named->rank.value_or(0);
    file.place.token = named->token.value_or(0);
    file.place.op = std::move(named->op);
    file.call = named->call.value_or(0);
    file.io = named->io;
    file.index = named->io != Io::kUnspecified && named->index.empty()
                     ? "0"
                     : std::move(named->index);
    files_.push_back(std::move(file));
  }

  // Returns an error if two files, which are adjacent, have the same place.
  // With `keeps_first_place_`, removes the second one and adds a problem
  // instead.
  absl::Status CheckPlaces() {
    const auto place = [](const File& file) {
      return std::tie(file.place.rank, file.place.token, file.place.op,
                      file.call, file.io, file.index);
    };
    std::vector<File> kept;
    for (File& file : files_) {
      if (kept.empty() || place(kept.back()) != place(file)) {
        kept.push_back(std::move(file));
        continue;
      }
      const absl::Status same = MakeStatus(
          absl::StatusCode::kInvalidArgument,
          "by the pattern, {} and {} are both rank {}, token {}, op \"{}\", "
          "call {}",
          root().PathOf(kept.back().path), root().PathOf(file.path),
          file.place.rank, file.place.token, file.place.op, file.call);
      if (!keeps_first_place_) return same;
      AddProblem(root().PathOf(file.path), same);
    }
    files_ = std::move(kept);
    return absl::OkStatus();
  }

  // Parses paths again if a word in them is not a rank; see files_tree.h.
  void LeaveOutRanks() {
    std::set<int32_t> ranks;
    for (const File& file : files_) {
      if (file.place.has_rank) ranks.insert(file.place.rank);
    }
    if (ranks.empty()) return;
    const bool are_all = *ranks.begin() == 0 &&
                         *ranks.rbegin() + 1 == std::ssize(ranks) && !is_part_;
    const bool are_none = is_rank_said_ && ranks.size() > 1;
    for (File& file : files_) {
      const bool counts = !are_none && (are_all || file.place.rank_begins_name);
      if (file.place.has_rank && !counts) {
        file.place = ReadFilePlace(WithoutSuffix(file.path), false);
      }
    }
  }

  // Creates the entry of a file. Returns false if the file is not valid.
  bool MakeEntry(const File& of) {
    const std::string path = root().PathOf(of.path);
    const auto file = formats::OpenTensorFile(path, {});
    if (!file.ok()) {
      AddProblem(path, file.status());
      return false;
    }
    entry_ = TreeEntry();
    entry_.file = path;
    entry_.key.rank = of.place.rank;
    entry_.key.token = of.place.token;
    entry_.key.op = of.place.op;
    entry_.key.io = of.io;
    entry_.key.index = of.index;
    if (of.io != Io::kUnspecified && HasSeveralTensors(**file)) {
      AddProblem(path, MakeStatus(absl::StatusCode::kInvalidArgument,
                                  "it has several tensors, and the pattern "
                                  "names the io of one"));
      return false;
    }
    if (entry_.key.op.empty()) {
      const formats::ForeignTensor* const first = (*file)->Next();
      const bool has_names = first != nullptr && !first->name.empty();
      // A file that names its tensors specifies the whole op of each.
      if (!has_names) entry_.key.op = kUnnamedOp;
    }
    if (!entry_.key.op.empty() && !CheckKey(entry_.key, path)) return false;
    entry_.key.call = pattern_ ? of.call : NumberCall(entry_.key);
    return true;
  }

  static bool HasSeveralTensors(formats::TensorFile& file) {
    return file.Next() != nullptr && file.Next() != nullptr;
  }

  // Numbers calls. Files of the same op, rank and token are consecutive.
  int32_t NumberCall(const TensorKey& key) {
    const bool is_same = last_key_.has_value() && key.rank == last_key_->rank &&
                         key.token == last_key_->token &&
                         key.op == last_key_->op;
    const int32_t call = is_same ? last_key_->call + 1 : 0;
    last_key_ = key;
    last_key_->call = call;
    return call;
  }

  const bool is_rank_said_;
  const std::optional<NamePattern> pattern_;
  const bool keeps_first_place_;
  const bool is_part_;
  std::vector<File> files_;
  size_t next_file_ = 0;
  // The key of the previous entry.
  std::optional<TensorKey> last_key_;
  TreeEntry entry_;
};

}  // namespace

std::optional<NamedPlace> MatchFilePath(const NamePattern& pattern,
                                        const std::string& path) {
  auto out = pattern.Match(WithoutSuffix(path));
  return out.has_value() ? out : pattern.Match(path);
}

OpenedTree OpenFilesTree(const TreeFolder& folder, const TreeOptions& options) {
  if (!folder.is_part()) {
    const Listing listing = folder.List("");
    if (std::binary_search(listing.files.begin(), listing.files.end(),
                           names::kExportIndex)) {
      if (options.name_pattern.has_value()) {
        return MakeStatus(absl::StatusCode::kInvalidArgument,
                          "its {} names its tensors: no pattern is needed",
                          names::kExportIndex);
      }
      return OpenIndexTree(folder);
    }
  }
  auto tree = std::make_unique<FilesTree>(folder, options);
  MSITD_RETURN_IF_ERROR(tree->Open());
  return tree;
}

}  // namespace msitd::trees
