// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/foreign/trees/tree.h"

namespace msitd::trees {

// What lies in one folder: names in the order of their bytes. Names that begin
// with a dot or end with `.swp` are left out and counted; those that begin with
// `import-ledger`, which msitd writes, are left out.
struct Listing {
  std::vector<std::string> folders;
  std::vector<std::string> files;
  // What could not be listed, or leads out of the tree.
  std::vector<TreeProblem> problems;
};

// What lies in folders, by their path.
using Listings = std::map<std::string, Listing>;

// The folder that is read, and nothing outside of it. A link to a file inside
// of it is that file; other links are problems. Paths are relative to the
// folder, names joined by `/`, and empty for itself. Copyable; thread-safe.
class TreeFolder {
 public:
  // `path` is a folder, or a single file: then the tree is the folder of that
  // file, with no other file in it. NOT_FOUND, PERMISSION_DENIED or
  // INVALID_ARGUMENT if it is neither.
  static absl::StatusOr<TreeFolder> Open(const std::string& path);

  // Lists the folder at `relative`. What goes wrong is a problem of it.
  Listing List(const std::string& relative) const;

  // Adds one name of the folder at `relative` to `listing`, as List does. A
  // name that is not there any more is no file, and no problem.
  void Look(const std::string& relative, const std::string& name,
            Listing* listing) const;

  // Returns the folder with only what `shown` has of it.
  TreeFolder Showing(std::shared_ptr<const Listings> shown) const;

  // True if the folder shows only a part of what lies there.
  bool is_part() const { return shown_ != nullptr; }
  // True if Open was given a file.
  bool is_single_file() const { return !only_file_.empty(); }

  // INVALID_ARGUMENT unless the file at `relative`, a path from somewhere else,
  // is a regular file in the folder; NOT_FOUND if there is none.
  absl::Status CheckFile(const std::string& relative) const;

  // What List and Look have left out so far.
  LeftOutFiles left_out() const;

  // Returns what to open: it begins with the `path` of Open, if that was a
  // folder.
  std::string PathOf(const std::string& relative) const;

  // The names on the way from `/` to the folder itself, without links.
  const std::vector<std::string>& above() const { return above_; }

 private:
  class LeftOutNames;

  TreeFolder();

  bool LeavesOut(const std::string& relative, const std::string& name) const;

  absl::Status CheckLink(const std::string& path) const;
  void Add(const std::string& relative, const std::string& name, int type,
           Listing* listing) const;

  std::string path_;
  std::string real_path_;
  std::vector<std::string> above_;
  // Set if it is the only one.
  std::string only_file_;
  // Shared by the copies; null: what is on the disk.
  std::shared_ptr<const Listings> shown_;
  // Shared by the copies.
  std::shared_ptr<LeftOutNames> left_out_;
};

// Returns the text of a small file. RESOURCE_EXHAUSTED if it has more bytes.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          uint64_t bytes_max);

// Returns `folder`/`name`, or `name` if `folder` is empty.
std::string JoinPath(std::string_view folder, std::string_view name);

// Cuts a path at its slashes; an empty path has no names.
std::vector<std::string> SplitPath(std::string_view path);

// The names on the way to the folder at `relative` from `/`. `above` are those
// to the tree.
std::vector<std::string> NamesOf(std::vector<std::string> above,
                                 std::string_view relative);

// Calls `visit` with each folder of the tree and what lies in it: a folder
// before those in it, in the order of names. It may take the problems.
// RESOURCE_EXHAUSTED beyond kFoldersMax or kDepthMax, or what `visit` returns.
absl::Status WalkFolders(
    const TreeFolder& folder,
    const std::function<absl::Status(const std::string& relative,
                                     Listing* listing)>& visit);

}  // namespace msitd::trees
