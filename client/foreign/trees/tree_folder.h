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

// The contents of one folder: names in the order of their bytes. Names that
// begin with a dot or end with `.swp` are ignored and counted. Names that begin
// with `import-ledger`, which msitd writes, are ignored.
struct Listing {
  std::vector<std::string> folders;
  std::vector<std::string> files;
  // Entries that could not be listed, and links that point out of the tree.
  std::vector<TreeProblem> problems;
};

// The contents of folders, by path.
using Listings = std::map<std::string, Listing>;

// The folder that is read. Nothing outside of it is accessed: a link to a file
// inside the folder is treated as that file, and other links are problems.
// Paths are relative to the folder, with names joined by `/`, and empty for the
// folder itself. Copyable; thread-safe.
class TreeFolder {
 public:
  // `path` is a folder or a single file. In the latter case, the tree is the
  // folder of that file with no other file in it. Returns NOT_FOUND,
  // PERMISSION_DENIED or INVALID_ARGUMENT if it is neither.
  static absl::StatusOr<TreeFolder> Open(const std::string& path);

  // Lists the folder at `relative`. Errors are problems of the listing.
  Listing List(const std::string& relative) const;

  // Adds one name in the folder at `relative` to `listing`, as List does. A
  // name that no longer exists is ignored.
  void Look(const std::string& relative, const std::string& name,
            Listing* listing) const;

  // Returns the folder restricted to the contents in `shown`.
  TreeFolder Showing(std::shared_ptr<const Listings> shown) const;

  // Returns true if the folder is restricted by Showing.
  bool is_part() const { return shown_ != nullptr; }
  // Returns true if Open was called with a file.
  bool is_single_file() const { return !only_file_.empty(); }

  // Returns INVALID_ARGUMENT unless the file at `relative`, a path from an
  // untrusted source, is a regular file in the folder; NOT_FOUND if it does not
  // exist.
  absl::Status CheckFile(const std::string& relative) const;

  // The files that List and Look have ignored so far.
  LeftOutFiles left_out() const;

  // Returns the path to open. It begins with the `path` of Open if that was a
  // folder.
  std::string PathOf(const std::string& relative) const;

  // The names on the path from `/` to the folder itself, with links resolved.
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
  // Shared by the copies. Null: the contents of the disk.
  std::shared_ptr<const Listings> shown_;
  // Shared by the copies.
  std::shared_ptr<LeftOutNames> left_out_;
};

// Returns the text of a small file. Returns RESOURCE_EXHAUSTED if it has more
// bytes.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          uint64_t bytes_max);

// Returns `folder`/`name`, or `name` if `folder` is empty.
std::string JoinPath(std::string_view folder, std::string_view name);

// Splits a path at its slashes. An empty path has no names.
std::vector<std::string> SplitPath(std::string_view path);

// Returns the names on the path from `/` to the folder at `relative`. `above`
// has those to the tree.
std::vector<std::string> NamesOf(std::vector<std::string> above,
                                 std::string_view relative);

// Calls `visit` with each folder of the tree and its contents, parents first,
// in the order of names. `visit` may move the problems. Returns
// RESOURCE_EXHAUSTED beyond kFoldersMax or kDepthMax, or an error of `visit`.
absl::Status WalkFolders(
    const TreeFolder& folder,
    const std::function<absl::Status(const std::string& relative,
                                     Listing* listing)>& visit);

}  // namespace msitd::trees
