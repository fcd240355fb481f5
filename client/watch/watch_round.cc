// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <utility>

#include "client/import/trees/file_name.h"
#include "client/watch/disk_prober.h"
#include "client/watch/watcher.h"
#include "protos/status/status.h"

// How files that are whole come into the run.
namespace msitd::watch {
namespace {

constexpr size_t kLandmarksMax = 4096;
constexpr size_t kHandledMax = size_t{1} << 20;

std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

int64_t SystemNanoseconds() {
  timespec now = {};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void AddName(std::vector<std::string>& names, const std::string& name) {
  const auto at = std::lower_bound(names.begin(), names.end(), name);
  if (at == names.end() || *at != name) names.insert(at, name);
}

void SortNames(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

}  // namespace

void Watcher::ShowFile(const std::string& path, trees::Listings& shown) {
  const auto [folder, name] = Split(path);
  const bool is_known = shown.contains(folder);
  shown[folder].files.push_back(name);
  std::string below = folder;
  bool goes_on = !is_known;
  while (goes_on && !below.empty()) {
    const auto [above, leaf] = Split(below);
    goes_on = !shown.contains(above);
    AddName(shown[above].folders, leaf);
    below = above;
  }
}

// The ops of a graph have its name if the tree has others, so the reader sees
// all graphs in each round.
void Watcher::Remember(const std::string& path) {
  const auto [folder, name] = Split(path);
  const bool is_fx = reader_.kind == trees::TreeKind::kFx;
  const bool is_dump = is_fx ? trees::ParseFxFileName(name).has_value()
                             : trees::ParseGeFileName(name).has_value();
  if (!is_dump || reader_.kind == trees::TreeKind::kFiles) return;
  const std::string graph = is_fx ? folder : Split(folder).first;
  if (landmarks_.size() >= kLandmarksMax) landmarks_.erase(landmarks_.begin());
  landmarks_.try_emplace(graph, path);
}

std::shared_ptr<const trees::Listings> Watcher::Show(
    const std::vector<WholeFile>& files) {
  auto shown = std::make_shared<trees::Listings>();
  if (!ComesByFile(reader_.kind)) {
    for (const WholeFile& file : files) ShowFile(file.path, shown_);
    for (auto& [folder, listing] : shown_) SortNames(listing.files);
    *shown = shown_;
    return shown;
  }
  std::set<std::string> folders;
  for (const WholeFile& file : files) {
    ShowFile(file.path, *shown);
    Remember(file.path);
    folders.insert(Split(file.path).first);
  }
  for (const auto& [graph, path] : landmarks_) ShowFile(path, *shown);
  for (const std::string& folder : folders) {
    const std::string names =
        trees::JoinPath(folder, std::string(trees::kLongNamesFile));
    FileStamp stamp;
    if (ReadStamp(folder_.PathOf(names), &stamp)) ShowFile(names, *shown);
  }
  for (auto& [folder, listing] : *shown) SortNames(listing.files);
  return shown;
}

absl::Status Watcher::DoRound(bool* is_sent) {
  std::vector<WholeFile> files;
  StreamedTree::Round round;
  const auto time = Clock::now();
  std::deque<WholeFile> waiting = std::exchange(whole_, {});
  for (WholeFile& file : waiting) {
    const bool is_in_order = is_ended_ || time - file.time >= kOrderTime ||
                             !states_.HasEarlier(file);
    if (files.size() >= kRoundFilesMax || !is_in_order) {
      whole_.push_back(std::move(file));
      continue;
    }
    FileStamp now;
    if (!ReadStamp(folder_.PathOf(file.path), &now)) continue;
    if (!(now == file.stamp)) {
      // It goes on.
      states_.Written(file.path, file.is_new, Clock::now());
      if (!is_ended_) continue;
    }
    round.files.insert(folder_.PathOf(file.path));
    files.push_back(std::move(file));
  }
  *is_sent = true;
  if (files.empty()) return absl::OkStatus();
  round.problems = std::exchange(problems_, {});
  auto opened = reader_.open(folder_.Showing(Show(files)), {});
  if (!opened.ok()) return opened.status();
  StreamedTree tree(*std::move(opened), round, options_.import, *book_, told_);
  const absl::Status sent = job_->Import(tree, root_);
  if (sent.ok()) {
    has_noted_absence_ = false;
    Settle(files);
    return absl::OkStatus();
  }
  host_.ledger().Forget();
  const bool may_come =
      absl::IsUnavailable(sent) || absl::IsDeadlineExceeded(sent);
  if (!may_come) return sent;
  *is_sent = false;
  whole_.insert(whole_.begin(), std::make_move_iterator(files.begin()),
                std::make_move_iterator(files.end()));
  if (!std::exchange(has_noted_absence_, true)) {
    host_.Note(std::string(Message(sent)) + "; files wait for it");
  }
  return absl::OkStatus();
}

void Watcher::Settle(const std::vector<WholeFile>& files) {
  const int64_t now_ns = SystemNanoseconds();
  if (handled_.size() + files.size() > kHandledMax) handled_.clear();
  for (const WholeFile& file : files) {
    const job::LedgerEntry entry{.path = file.path,
                                 .bytes = file.stamp.bytes,
                                 .mtime_ns = file.stamp.mtime_ns};
    std::string problem;
    if (!host_.ledger().Has(entry, problem)) {
      handled_[file.path] = file.stamp;
      continue;
    }
    if (!file.is_new) continue;
    lag_.Add(
        std::chrono::milliseconds((now_ns - file.stamp.ctime_ns) / 1'000'000));
  }
}

}  // namespace msitd::watch
