// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "client/foreign/watch/disk_prober.h"
#include "client/foreign/watch/path_name.h"
#include "client/foreign/watch/watcher.h"

// Rounds of trees that are read as a whole, such as those of msprobe: a file
// that lists the others may arrive after them, and may be rewritten.
namespace msitd::watch {

void Watcher::PrepareWhole(StreamedTree::Round& round) {
  // All problems that still exist are found again.
  job_->ForgetProblems();
  round.problems = problems_;
  round.is_imported = [this](const std::string& file) {
    const std::string root = folder_.PathOf("");
    std::string_view path = file;
    if (path.starts_with(root)) path.remove_prefix(root.size());
    while (path.starts_with('/')) path.remove_prefix(1);
    return host_.ledger().HasPath(std::string(path));
  };
  if (reader_.kind != trees::TreeKind::kMsprobe || is_ended_) return;
  round.takes_documents = [past = steps_.PastSteps()](int64_t token) {
    return past.contains(token);
  };
}

void Watcher::Await(const std::vector<WholeFile>& files) {
  for (const WholeFile& file : files) {
    handled_[file.path] = file.stamp;
    awaited_[file.path] = file.stamp;
  }
}

void Watcher::SettleAwaited(bool is_stored) {
  for (auto at = awaited_.begin(); at != awaited_.end();) {
    const auto& [path, stamp] = *at;
    const fill::LedgerEntry entry{
        .path = path, .bytes = stamp.bytes, .mtime_ns = stamp.mtime_ns};
    std::string problem;
    if (!host_.ledger().Has(entry, problem)) {
      ++at;
      continue;
    }
    if (is_stored && problem.empty()) {
      handled_.erase(path);
      keeper_.Take(path, stamp);
    }
    at = awaited_.erase(at);
  }
}

Watcher::FolderStamps Watcher::PastFolders() const {
  FolderStamps out;
  if (reader_.kind != trees::TreeKind::kMsprobe) return out;
  std::vector<std::string> past = steps_.Past();
  if (is_ended_) past = steps_.All();
  const std::set<int64_t> steps = steps_.PastSteps();
  for (const std::string& folder : past) {
    // Documents of a step are taken once all of its ranks have left it.
    const auto place = StepFolderOf(folder + "/");
    if (!is_ended_ && place && !steps.contains(place->step)) continue;
    std::map<std::string, FileStamp>& stamps = out[folder];
    const auto listing = shown_.find(folder);
    if (listing == shown_.end()) continue;
    for (const std::string& name : listing->second.files) {
      const std::string path = trees::JoinPath(folder, name);
      FileStamp stamp;
      if (ReadStamp(folder_.PathOf(path), &stamp)) stamps[path] = stamp;
    }
  }
  return out;
}

bool Watcher::IsAwaited(const std::string& folder) const {
  const std::string below = folder + "/";
  bool is_awaited = false;
  states_.ForEach([&](const std::string& path, const std::string& /*reason*/) {
    is_awaited = is_awaited || path.starts_with(below);
  });
  return is_awaited ||
         std::any_of(whole_.begin(), whole_.end(), [&](const WholeFile& file) {
           return file.path.starts_with(below);
         });
}

bool Watcher::HasProblemIn(const std::string& folder) const {
  const fill::ImportProblems& problems = job_->problems();
  const std::string below = folder_.PathOf(folder) + "/";
  return problems.count() > static_cast<int64_t>(problems.listed().size()) ||
         std::any_of(problems.listed().begin(), problems.listed().end(),
                     [&](const fill::ImportProblems::Problem& problem) {
                       return problem.file.starts_with(below) ||
                              problem.file == "values";
                     });
}

void Watcher::Retire(const FolderStamps& folders, bool is_stored) {
  for (const auto& [folder, stamps] : folders) {
    if (IsAwaited(folder) || HasProblemIn(folder)) continue;
    for (const auto& [path, stamp] : stamps) {
      awaited_.erase(path);
      if (is_stored) keeper_.Take(path, stamp);
    }
    Hide(folder);
    steps_.Remove(folder);
  }
  if (!is_ended_ || !is_stored || job_->problems().count() > 0) return;
  // The rest are documents outside of such folders.
  for (const auto& [path, stamp] : awaited_) keeper_.Take(path, stamp);
}

void Watcher::Hide(const std::string& folder) {
  const std::string below = folder + "/";
  for (auto at = shown_.lower_bound(below);
       at != shown_.end() && at->first.starts_with(below);) {
    at = shown_.erase(at);
  }
  // Folders above it may have nothing else.
  for (std::string path = folder; shown_.erase(path) > 0 && !path.empty();) {
    const auto [above, name] = SplitName(path);
    const auto listing = shown_.find(above);
    if (listing == shown_.end()) return;
    auto& names = listing->second.folders;
    names.erase(std::remove(names.begin(), names.end(), name), names.end());
    if (!names.empty() || !listing->second.files.empty()) return;
    path = above;
  }
}

}  // namespace msitd::watch
