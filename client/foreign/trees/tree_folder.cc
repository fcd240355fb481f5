// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/tree_folder.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "client/foreign/formats/byte_source.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/utf8.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

absl::StatusOr<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(
      ::realpath(path.c_str(), nullptr), &::free);
  if (real == nullptr) return ErrnoStatus(errno, path);
  return std::string(real.get());
}

// Files that msitd itself writes.
bool IsLedger(std::string_view name) {
  return name.starts_with("import-ledger");
}

bool IsLeftOut(std::string_view name) {
  return name.starts_with('.') || name.ends_with(".swp");
}

bool IsDots(std::string_view name) { return name == "." || name == ".."; }

// Names of ignored files that are reported.
constexpr size_t kLeftOutShownMax = 16;

// Returns the type of the file at `path`, as readdir reports it.
int TypeAt(const std::string& path) {
  struct stat about = {};
  if (::lstat(path.c_str(), &about) != 0) return DT_UNKNOWN;
  return IFTODT(about.st_mode);
}

TreeProblem Refused(std::string file, std::string_view why) {
  return {std::move(file),
          MakeStatus(absl::StatusCode::kInvalidArgument, "{}", why)};
}

}  // namespace

std::string JoinPath(std::string_view folder, std::string_view name) {
  std::string out(folder);
  if (!out.empty() && !name.empty() && !out.ends_with('/')) out += '/';
  return out.append(name);
}

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    if (slash > 0) names.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return names;
}

// Folders are listed several times, so each name is counted once.
class TreeFolder::LeftOutNames {
 public:
  void Add(std::string path) {
    MutexLock lock(mu_);
    if (names_.size() == kLeftOutNamesMax) {
      count_ += names_.contains(path) ? 0 : 1;
      return;
    }
    if (names_.insert(std::move(path)).second) ++count_;
  }

  LeftOutFiles Get() {
    MutexLock lock(mu_);
    LeftOutFiles out{.count = count_, .first = {}};
    for (const std::string& name : names_) {
      if (out.first.size() == kLeftOutShownMax) break;
      out.first.push_back(name);
    }
    return out;
  }

 private:
  Mutex mu_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mu_);
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
};

TreeFolder::TreeFolder() : left_out_(std::make_shared<LeftOutNames>()) {}

bool TreeFolder::LeavesOut(const std::string& relative,
                           const std::string& name) const {
  if (IsDots(name) || IsLedger(name)) return true;
  if (!IsLeftOut(name)) return false;
  left_out_->Add(PathOf(JoinPath(relative, name)));
  return true;
}

LeftOutFiles TreeFolder::left_out() const { return left_out_->Get(); }

absl::Status TreeFolder::CheckFile(const std::string& relative) const {
  const std::vector<std::string> names = SplitPath(relative);
  const bool is_inside = !names.empty() && !relative.starts_with('/') &&
                         std::none_of(names.begin(), names.end(), IsDots);
  if (!is_inside) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is not a file of the folder", relative);
  }
  return CheckLink(PathOf(relative));
}

absl::StatusOr<TreeFolder> TreeFolder::Open(const std::string& path) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0) return ErrnoStatus(errno, path);
  TreeFolder folder;
  folder.path_ = path;
  while (folder.path_.size() > 1 && folder.path_.ends_with('/')) {
    folder.path_.pop_back();
  }
  if (S_ISREG(about.st_mode)) {
    const std::string file = folder.path_;
    const size_t slash = file.rfind('/');
    folder.only_file_ = file.substr(slash + 1);
    folder.path_ = slash == std::string::npos ? std::string(".")
                                              : file.substr(0, slash + 1);
  } else if (!S_ISDIR(about.st_mode)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}: it is neither a folder nor a file", path);
  }
  MSITD_ASSIGN_OR_RETURN(folder.real_path_, RealPath(folder.path_));
  folder.above_ = SplitPath(folder.real_path_);
  return folder;
}

std::string TreeFolder::PathOf(const std::string& relative) const {
  return JoinPath(path_, relative);
}

absl::Status TreeFolder::CheckLink(const std::string& path) const {
  MSITD_ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  const std::string inside = real_path_ == "/" ? real_path_ : real_path_ + "/";
  if (!real.starts_with(inside)) {
    return absl::InvalidArgumentError("a link to a file outside of the folder");
  }
  if (TypeAt(real) != DT_REG) {
    return absl::InvalidArgumentError("a link to something other than a file");
  }
  return absl::OkStatus();
}

void TreeFolder::Add(const std::string& relative, const std::string& name,
                     int type, Listing* listing) const {
  const std::string path = PathOf(JoinPath(relative, name));
  if (!IsValidUtf8(name)) {
    listing->problems.push_back(Refused(path, "its name is not UTF-8"));
    return;
  }
  if (type == DT_UNKNOWN) type = TypeAt(path);
  if (type == DT_DIR) {
    listing->folders.push_back(name);
    return;
  }
  if (type == DT_LNK && only_file_.empty()) {
    const absl::Status inside = CheckLink(path);
    if (!inside.ok()) {
      listing->problems.push_back({path, inside});
      return;
    }
  } else if (type != DT_REG && type != DT_LNK) {
    listing->problems.push_back(Refused(path, "it is not a regular file"));
    return;
  }
  listing->files.push_back(name);
}

void TreeFolder::Look(const std::string& relative, const std::string& name,
                      Listing* listing) const {
  if (LeavesOut(relative, name)) return;
  const int type = TypeAt(PathOf(JoinPath(relative, name)));
  if (type != DT_UNKNOWN) Add(relative, name, type, listing);
}

TreeFolder TreeFolder::Showing(std::shared_ptr<const Listings> shown) const {
  TreeFolder folder = *this;
  folder.shown_ = std::move(shown);
  return folder;
}

Listing TreeFolder::List(const std::string& relative) const {
  Listing out;
  if (shown_ != nullptr) {
    const auto at = shown_->find(relative);
    return at == shown_->end() ? out : at->second;
  }
  if (!only_file_.empty()) {
    if (relative.empty()) Add(relative, only_file_, DT_UNKNOWN, &out);
    return out;
  }
  const std::string path = PathOf(relative);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(path.c_str()),
                                                   &::closedir);
  if (stream == nullptr) {
    out.problems.push_back({path, ErrnoStatus(errno, "open folder")});
    return out;
  }
  size_t count = 0;
  for (;;) {
    errno = 0;
    // readdir is thread-safe here, because no other thread uses the stream.
    const dirent* item = ::readdir(stream.get());  // NOLINT
    if (item == nullptr) break;
    const std::string name(item->d_name);
    if (LeavesOut(relative, name)) continue;
    if (++count > kFolderNamesMax) {
      out.problems.push_back(
          {path, MakeStatus(absl::StatusCode::kResourceExhausted,
                            "it has more than {} names, of which these are "
                            "read",
                            kFolderNamesMax)});
      break;
    }
    Add(relative, name, item->d_type, &out);
  }
  if (errno != 0) {
    out.problems.push_back({path, ErrnoStatus(errno, "read folder")});
  }
  std::sort(out.folders.begin(), out.folders.end());
  std::sort(out.files.begin(), out.files.end());
  return out;
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path,
                                          uint64_t bytes_max) {
  MSITD_ASSIGN_OR_RETURN(const auto source, formats::FileSource::Open(path));
  if (source->size() > bytes_max) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "it has {} bytes, more than {}", source->size(),
                      bytes_max);
  }
  return source->ReadText(0, source->size());
}

std::vector<std::string> NamesOf(std::vector<std::string> above,
                                 std::string_view relative) {
  std::vector<std::string> below = SplitPath(relative);
  std::move(below.begin(), below.end(), std::back_inserter(above));
  return above;
}

absl::Status WalkFolders(
    const TreeFolder& folder,
    const std::function<absl::Status(const std::string& relative,
                                     Listing* listing)>& visit) {
  struct Open {
    std::string path;
    int depth;
  };
  // The next folder is the last element.
  std::vector<Open> open = {{"", 0}};
  size_t count = 0;
  while (!open.empty()) {
    const Open next = std::move(open.back());
    open.pop_back();
    if (++count + open.size() > kFoldersMax || next.depth > kDepthMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "{}: more than {} folders, or {} in one another",
                        folder.PathOf(next.path), kFoldersMax, kDepthMax);
    }
    Listing listing = folder.List(next.path);
    MSITD_RETURN_IF_ERROR(visit(next.path, &listing));
    for (auto name = listing.folders.rbegin(); name != listing.folders.rend();
         ++name) {
      open.push_back({JoinPath(next.path, *name), next.depth + 1});
    }
  }
  return absl::OkStatus();
}

}  // namespace msitd::trees
