// SPDX-License-Identifier: Apache-2.0
#include "client/import/trees/files_tree.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/import/formats/tensor_file.h"
#include "client/import/trees/tree_base.h"
#include "client/import/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr size_t kSuffixBytesMax = 16;

// Cuts `.npy` off, but not what begins with a digit, such as the time in the
// name of a dump.
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
  explicit FilesTree(const TreeFolder& folder)
      : TreeBase(TreeKind::kFiles, folder) {
    set_ranks({0});
  }

  const TreeEntry* Next() override {
    for (;;) {
      if (next_file_ < files_.size()) {
        if (Take(files_[next_file_++])) return &entry_;
      } else if (!open_.empty()) {
        List();
      } else {
        return nullptr;
      }
    }
  }

 private:
  // Lists the next folder.
  void List() {
    path_ = std::move(open_.back());
    open_.pop_back();
    Listing listing = root().List(path_);
    AddProblems(std::move(listing.problems));
    files_ = std::move(listing.files);
    next_file_ = 0;
    calls_.clear();
    const bool is_deepest =
        static_cast<int>(SplitPath(path_).size()) >= kDepthMax;
    for (auto name = listing.folders.rbegin(); name != listing.folders.rend();
         ++name) {
      std::string path = JoinPath(path_, *name);
      if (is_deepest || open_.size() == kFoldersMax) {
        AddProblem(root().PathOf(path),
                   MakeStatus(absl::StatusCode::kResourceExhausted,
                              "it is not read: more than {} folders, or {} in "
                              "one another",
                              kFoldersMax, kDepthMax));
        continue;
      }
      open_.push_back(std::move(path));
    }
  }

  // Makes the entry of a file; false if it is none.
  bool Take(const std::string& name) {
    const std::string relative = JoinPath(path_, name);
    const std::string path = root().PathOf(relative);
    const auto file = formats::OpenTensorFile(path, {});
    if (!file.ok()) {
      AddProblem(path, file.status());
      return false;
    }
    entry_ = TreeEntry();
    entry_.file = path;
    entry_.key.op = WithoutSuffix(relative);
    if (!CheckKey(entry_.key, path)) return false;
    entry_.key.call = calls_[entry_.key.op]++;
    return true;
  }

  // Folders to come; the next one is the last.
  std::vector<std::string> open_ = {""};
  // The folder that is read, its files, and the calls of each op in it.
  std::string path_;
  std::vector<std::string> files_;
  size_t next_file_ = 0;
  std::map<std::string, int32_t> calls_;
  TreeEntry entry_;
};

}  // namespace

OpenedTree OpenFilesTree(const TreeFolder& folder,
                         const TreeOptions& /*options*/) {
  return std::make_unique<FilesTree>(folder);
}

}  // namespace msitd::trees
