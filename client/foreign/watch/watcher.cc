// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/watcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "client/foreign/trees/files_tree.h"
#include "client/foreign/trees/ge/ge_tree.h"
#include "client/foreign/trees/tree_limits.h"
#include "client/foreign/watch/disk_prober.h"
#include "protos/status/status.h"

namespace msitd::watch {
namespace {

using std::chrono::milliseconds;

// The interval for checking the time and the stop flag.
constexpr milliseconds kTick{100};

// In a folder without a known layout, files are not imported before there was
// time for a layout to appear.
constexpr milliseconds kDetectInterval{300};
constexpr milliseconds kPlainQuiet{1000};
constexpr milliseconds kPlainTime{5000};

// Files that are probed in one step.
constexpr size_t kLooksMax = 8192;

}  // namespace

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Open(const std::string& root,
                                                       WatchOptions options,
                                                       FolderEvents& events,
                                                       WatchHost& host) {
  MSITD_ASSIGN_OR_RETURN(trees::TreeFolder folder,
                         trees::TreeFolder::Open(root));
  return std::unique_ptr<Watcher>(
      new Watcher(std::move(folder), root, std::move(options), events, host));
}

Watcher::Watcher(trees::TreeFolder folder, std::string root,
                 WatchOptions options, FolderEvents& events, WatchHost& host)
    : folder_(std::move(folder)),
      root_(std::move(root)),
      options_(std::move(options)),
      events_(events),
      host_(host),
      states_(options_.timing, *this),
      keeper_(options_.sources, folder_.PathOf("")),
      activity_time_(Clock::now()) {}

WatchCounts Watcher::counts() const {
  WatchCounts counts;
  counts.waiting_count = static_cast<int64_t>(whole_.size());
  counts.incomplete_count = is_ended_
                                ? incomplete_count_
                                : static_cast<int64_t>(states_.pending_count());
  counts.late_count = book_ == nullptr ? 0 : book_->late_count();
  counts.lost_count = lost_count_;
  counts.polled_folder_count = static_cast<int64_t>(polled_.size());
  return counts;
}

bool Watcher::Stat(const std::string& path, FileStamp* stamp) {
  if (!ReadStamp(folder_.PathOf(path), stamp)) {
    handled_.erase(path);
    return false;
  }
  const auto handled = handled_.find(path);
  if (handled != handled_.end() && handled->second == *stamp) return false;
  const fill::LedgerEntry entry{
      .path = path, .bytes = stamp->bytes, .mtime_ns = stamp->mtime_ns};
  std::string problem;
  if (host_.ledger().Has(entry, problem)) {
    if (!problem.empty() || IsOfSource(path, *stamp)) return false;
    if (takes_known_) {
      keeper_.Take(path, *stamp);
    } else {
      NoteUnstored();
    }
    return false;
  }
  return !IsOfSource(path, *stamp);
}

Length Watcher::Probe(const std::string& path, std::string* reason) {
  if (WaitsForSource(path)) {
    *reason = "the dump that it was made from exists and is used instead";
    return Length::kLater;
  }
  return ProbeLength(folder_.PathOf(path), atb_folders_, reason);
}

absl::Status Watcher::Run() {
  if (options_.kind) {
    MSITD_RETURN_IF_ERROR(CheckKind(*options_.kind));
    MSITD_RETURN_IF_ERROR(TryBegin(/*must=*/false));
  }
  Walk("", /*is_new=*/false);
  while (!host_.is_stopped() && !IsIdle()) MSITD_RETURN_IF_ERROR(Step());
  return End();
}

bool Watcher::IsIdle() const {
  // Without a file that matches the pattern, the others are only reported.
  const bool may_begin = job_ != nullptr || !options_.name_pattern ||
                         first_file_time_ != Clock::time_point::max();
  return options_.until_idle && whole_.empty() &&
         (!may_begin || states_.hopeful_count() == 0) &&
         !keeper_.is_due(Clock::now()) &&
         Clock::now() - activity_time_ >= *options_.until_idle;
}

milliseconds Watcher::WaitLimit() const {
  auto next = Clock::now() + kTick;
  if (job_ != nullptr) {
    next = std::min(next, states_.next_look());
    if (!whole_.empty()) next = std::min(next, round_time_);
    if (keeper_.is_due(Clock::now())) return milliseconds(0);
  }
  return std::clamp(std::chrono::ceil<milliseconds>(next - Clock::now()),
                    milliseconds(0), kTick);
}

absl::Status Watcher::Step() {
  MSITD_RETURN_IF_ERROR(TakeEvents(WaitLimit()));
  Poll();
  host_.OnProgress();
  if (job_ == nullptr) MSITD_RETURN_IF_ERROR(TryBegin(/*must=*/false));
  if (job_ == nullptr) return absl::OkStatus();
  WorkOnSources(/*is_end=*/false);
  const auto now = Clock::now();
  std::vector<WholeFile> whole;
  // Limits the number of files that wait for an unavailable daemon.
  if (whole_.size() < kLooksMax) {
    states_.TakeWhole(now, kLooksMax, /*is_end=*/false, &whole);
  }
  if (!whole.empty()) activity_time_ = now;
  whole_.insert(whole_.end(), std::make_move_iterator(whole.begin()),
                std::make_move_iterator(whole.end()));
  if (whole_.empty() || now < round_time_) return absl::OkStatus();
  bool is_sent = false;
  MSITD_RETURN_IF_ERROR(DoRound(/*must=*/false, &is_sent));
  round_time_ = is_sent ? now + kRoundInterval : Clock::now() + kRetryInterval;
  activity_time_ = Clock::now();
  return absl::OkStatus();
}

absl::Status Watcher::TakeEvents(milliseconds limit) {
  std::vector<FolderEvent> events;
  MSITD_RETURN_IF_ERROR(events_.Wait(limit, &events));
  if (!events.empty()) activity_time_ = Clock::now();
  bool is_lost = states_.pending_count() < FileStates::kPendingMax / 2 &&
                 states_.TakeFull();
  for (const FolderEvent& event : events) {
    is_lost = is_lost || event.kind == FolderEvent::Kind::kLost;
    Take(event);
  }
  if (!is_lost) return absl::OkStatus();
  ++lost_count_;
  Walk("", /*is_new=*/true);
  return absl::OkStatus();
}

void Watcher::Take(const FolderEvent& event) {
  const auto now = Clock::now();
  const std::string path = trees::JoinPath(event.folder, event.name);
  switch (event.kind) {
    case FolderEvent::Kind::kWritten:
    case FolderEvent::Kind::kClosed: {
      trees::Listing listing;
      folder_.Look(event.folder, event.name, &listing);
      if (!listing.folders.empty()) return;
      if (!listing.files.empty() && event.kind == FolderEvent::Kind::kClosed) {
        states_.Closed(path, now);
        listing.files.clear();
        NoteFile(path, now);
      }
      return TakeListing(event.folder, std::move(listing), /*is_new=*/true);
    }
    case FolderEvent::Kind::kGone:
      states_.Gone(path);
      handled_.erase(path);
      return;
    case FolderEvent::Kind::kFolder:
      return Walk(path, /*is_new=*/true);
    case FolderEvent::Kind::kFolderGone:
      events_.Remove(path);
      return;
    case FolderEvent::Kind::kUnwatched:
      if (event.folder.empty()) has_root_ = false;
      // It may be another folder with the same name.
      else
        Walk(event.folder, /*is_new=*/true);
      return;
    case FolderEvent::Kind::kLost:
      return;
  }
}

void Watcher::WatchFolder(const std::string& folder) {
  const absl::Status added =
      options_.polls ? absl::ResourceExhaustedError("") : events_.Add(folder);
  if (added.ok()) {
    polled_.erase(folder);
    return;
  }
  if (!absl::IsResourceExhausted(added)) return;
  polled_.insert(folder);
  if (options_.polls || std::exchange(has_noted_limit_, true)) return;
  host_.Note(fmt::format("{}: some folders are listed every second instead",
                         Message(added)));
}

void Watcher::Walk(const std::string& folder, bool is_new) {
  // The next folder is the last element.
  std::vector<std::string> open = {folder};
  size_t count = 0;
  while (!open.empty()) {
    const std::string path = std::move(open.back());
    open.pop_back();
    const bool is_deep =
        trees::SplitPath(path).size() > static_cast<size_t>(trees::kDepthMax);
    if (++count > trees::kFoldersMax || is_deep) {
      problems_.push_back(
          {folder_.PathOf(path),
           MakeStatus(absl::StatusCode::kResourceExhausted,
                      "it is not watched: more than {} folders, or {} in one "
                      "another",
                      trees::kFoldersMax, trees::kDepthMax)});
      if (is_deep) continue;
      return;
    }
    // Watches before listing: changes in between are reported twice.
    WatchFolder(path);
    trees::Listing listing = folder_.List(path);
    for (auto name = listing.folders.rbegin(); name != listing.folders.rend();
         ++name) {
      open.push_back(trees::JoinPath(path, *name));
    }
    TakeListing(path, std::move(listing), is_new);
  }
}

void Watcher::TakeListing(const std::string& folder, trees::Listing listing,
                          bool is_new) {
  const auto now = Clock::now();
  for (const std::string& name : listing.files) {
    const std::string path = trees::JoinPath(folder, name);
    states_.Written(path, is_new, now);
    NoteFile(path, now);
  }
  for (trees::TreeProblem& problem : listing.problems) {
    // The folder was removed in the meantime.
    if (absl::IsNotFound(problem.reason)) continue;
    if (problems_.size() < trees::kProblemsMax) {
      problems_.push_back(std::move(problem));
    }
  }
}

void Watcher::NoteFile(const std::string& path, Clock::time_point now) {
  if (first_file_time_ != Clock::time_point::max()) return;
  const bool is_expected = !options_.name_pattern ||
                           trees::MatchFilePath(*options_.name_pattern, path);
  if (!is_expected) return;
  first_file_ = path;
  first_file_time_ = now;
}

void Watcher::CheckFirstFile(Clock::time_point now) {
  const auto exists = [this](const std::string& path) {
    return ::access(folder_.PathOf(path).c_str(), F_OK) == 0;
  };
  if (first_file_.empty() || exists(first_file_)) return;
  first_file_.clear();
  first_file_time_ = Clock::time_point::max();
  states_.ForEach([&](const std::string& path, const std::string&) {
    if (first_file_.empty() && exists(path)) NoteFile(path, now);
  });
}

void Watcher::Poll() {
  const auto now = Clock::now();
  if (now < poll_time_) return;
  if (!has_root_ && ::access(root_.c_str(), F_OK) == 0) {
    has_root_ = true;
    Walk("", /*is_new=*/true);
  }
  const std::set<std::string> polled = polled_;
  for (const std::string& folder : polled) {
    trees::Listing listing = folder_.List(folder);
    const bool is_gone = !listing.problems.empty() &&
                         absl::IsNotFound(listing.problems[0].reason);
    if (is_gone && !folder.empty()) polled_.erase(folder);
    for (const std::string& name : listing.folders) {
      const std::string path = trees::JoinPath(folder, name);
      // Folders with a watch report changes themselves.
      if (!polled_.contains(path)) Walk(path, /*is_new=*/true);
    }
    TakeListing(folder, std::move(listing), /*is_new=*/true);
  }
  // Long listings leave time for other work.
  const auto took = Clock::now() - now;
  poll_time_ =
      Clock::now() + std::max<Clock::duration>(kPollInterval, took * 4);
}

absl::Status Watcher::TryBegin(bool must) {
  if (options_.kind) return TryBeginAs(*options_.kind, must);
  const auto now = Clock::now();
  if (states_.pending_count() == 0) return absl::OkStatus();
  if (now < detect_time_ && !must) return absl::OkStatus();
  detect_time_ = now + kDetectInterval;
  const auto reader = trees::DetectReader(folder_);
  if (!reader.ok()) return absl::OkStatus();
  const bool is_plain = reader->kind == trees::TreeKind::kFiles;
  if (is_plain && !HasSettledFiles(now) && !must) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(CheckKind(reader->kind));
  MSITD_ASSIGN_OR_RETURN(const auto tree, reader->open(folder_, {}));
  const absl::Status begun = Begin(*reader, *tree);
  if (must || !MayCome(begun)) return begun;
  NoteAbsence(begun);
  detect_time_ = now + kRetryInterval;
  return absl::OkStatus();
}

absl::Status Watcher::TryBeginAs(trees::TreeKind kind, bool must) {
  const auto now = Clock::now();
  if (now < detect_time_ && !must) return absl::OkStatus();
  detect_time_ = now + kDetectInterval;
  MSITD_ASSIGN_OR_RETURN(const trees::TreeReader reader, trees::ReaderOf(kind));
  if (options_.name_pattern && !HasSettledFiles(now) && !must) {
    return absl::OkStatus();
  }
  const auto tree = reader.open(folder_, ReaderOptions());
  if (tree.ok()) return Begin(reader, **tree);
  // With a pattern, more files do not change the reason.
  if (options_.name_pattern) return tree.status();
  // A folder without files is not a tree of this kind yet.
  return must && states_.pending_count() > 0 ? tree.status() : absl::OkStatus();
}

bool Watcher::HasSettledFiles(Clock::time_point now) {
  CheckFirstFile(now);
  return first_file_time_ <= now && (now - activity_time_ >= kPlainQuiet ||
                                     now - first_file_time_ >= kPlainTime);
}

trees::TreeOptions Watcher::ReaderOptions() const {
  trees::TreeOptions out;
  out.mapping_folder = options_.mapping_folder;
  out.may_lack_mappings = true;
  out.name_pattern = options_.name_pattern;
  out.keeps_first_place = true;
  return out;
}

absl::Status Watcher::CheckKind(trees::TreeKind kind) const {
  if (!options_.mapping_folder.empty() && kind != trees::TreeKind::kMindie) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "its format is {}: mappings in {} are only for mindie",
                      trees::TreeKindName(kind), options_.mapping_folder);
  }
  if (options_.sources.deletes && kind == trees::TreeKind::kAtb) {
    return absl::InvalidArgumentError(
        "--delete is not supported for atb: its files refer to the bytes of "
        "one another, which would be lost");
  }
  return absl::OkStatus();
}

absl::Status Watcher::Begin(const trees::TreeReader& reader,
                            const trees::Tree& tree) {
  MSITD_RETURN_IF_ERROR(
      host_.Begin(reader.kind, tree.world_size(), tree.ranks()));
  takes_known_ = host_.holds_ledger();
  reader_ = reader;
  job_ = std::make_unique<fill::ImportJob>(options_.import, host_.target(),
                                           host_.ledger());
  book_ = std::make_unique<CallBook>(host_.ledger());
  return absl::OkStatus();
}

absl::Status Watcher::End() {
  MSITD_RETURN_IF_ERROR(TakeEvents(milliseconds(0)));
  if (job_ == nullptr) MSITD_RETURN_IF_ERROR(TryBegin(/*must=*/true));
  std::vector<WholeFile> whole;
  if (job_ != nullptr) {
    states_.TakeWhole(Clock::now(), FileStates::kPendingMax, /*is_end=*/true,
                      &whole);
  }
  whole_.insert(whole_.end(), whole.begin(), whole.end());
  std::vector<std::string> converted;
  states_.ForEach([&](const std::string& path, const std::string& reason) {
    if (WaitsForSource(path)) {
      converted.push_back(path);
      return;
    }
    ++incomplete_count_;
    if (incomplete_.size() < kListedIncompleteMax) {
      incomplete_.push_back({folder_.PathOf(path), reason});
    }
    FileStamp stamp;
    // Complete tensors of an incomplete file are imported.
    if (job_ != nullptr && Stat(path, &stamp) && stamp.bytes > 0) {
      whole_.push_back({.path = path, .stamp = stamp});
    }
  });
  is_ended_ = true;
  bool is_sent = true;
  while (!whole_.empty() && is_sent) {
    MSITD_RETURN_IF_ERROR(DoRound(/*must=*/false, &is_sent));
  }
  // The dumps of these files have arrived, or never will.
  for (const std::string& path : converted) {
    FileStamp stamp;
    if (!Stat(path, &stamp) || WaitsForSource(path)) continue;
    whole_.push_back({.path = path, .stamp = stamp});
  }
  while (!whole_.empty() && is_sent) {
    MSITD_RETURN_IF_ERROR(DoRound(/*must=*/false, &is_sent));
  }
  if (is_sent && job_ != nullptr && !ComesByFile(reader_.kind)) {
    // Documents are final now, and so are problems.
    MSITD_RETURN_IF_ERROR(DoRound(/*must=*/true, &is_sent));
  }
  if (is_sent && !options_.mapping_folder.empty()) {
    const absl::Status there =
        trees::CheckMappingFolder(options_.mapping_folder);
    if (!there.ok()) problems_.push_back({options_.mapping_folder, there});
    MSITD_RETURN_IF_ERROR(DoRound(/*must=*/true, &is_sent));
  }
  WorkOnSources(/*is_end=*/true);
  // The files that replace others.
  if (job_ != nullptr && is_sent && host_.ledger().has_added()) {
    MSITD_RETURN_IF_ERROR(job_->SaveAdded());
  }
  if (job_ != nullptr) job_->EndStreams();
  if (is_sent) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kUnavailable,
                    "{} files are waiting for the daemon", whole_.size());
}

}  // namespace msitd::watch
