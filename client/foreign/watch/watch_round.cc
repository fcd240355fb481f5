// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/foreign/trees/file_name.h"
#include "client/foreign/watch/disk_prober.h"
#include "client/foreign/watch/min_max.h"
#include "client/foreign/watch/path_name.h"
#include "client/foreign/watch/watcher.h"
#include "protos/base/error_reason.h"
#include "protos/status/status.h"

// Imports complete files into the run.
namespace msitd::watch {
namespace {

constexpr size_t kLandmarksMax = 4096;
constexpr size_t kHandledMax = size_t{1} << 20;

// Conditions that end by themselves, or when space is freed.
constexpr ErrorReason kPassingReasons[] = {ErrorReason::kDiskFull,
                                           ErrorReason::kRequestsExhausted,
                                           ErrorReason::kStreamsExhausted};

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
  const auto [folder, name] = SplitName(path);
  const bool is_known = shown.contains(folder);
  shown[folder].files.push_back(name);
  std::string below = folder;
  bool goes_on = !is_known;
  while (goes_on && !below.empty()) {
    const auto [above, leaf] = SplitName(below);
    goes_on = !shown.contains(above);
    AddName(shown[above].folders, leaf);
    below = above;
  }
}

// The ops of a graph have its name if the tree has other graphs, so the reader
// gets all graphs in each round.
void Watcher::Remember(const std::string& path) {
  const auto [folder, name] = SplitName(path);
  const bool is_fx = reader_.kind == trees::TreeKind::kFx;
  const bool is_dump = is_fx ? trees::ParseFxFileName(name).has_value()
                             : trees::ParseGeFileName(name).has_value();
  if (!is_dump || reader_.kind == trees::TreeKind::kFiles) return;
  const std::string graph = is_fx ? folder : SplitName(folder).first;
  if (landmarks_.size() >= kLandmarksMax) landmarks_.erase(landmarks_.begin());
  landmarks_.try_emplace(graph, path);
}

std::shared_ptr<const trees::Listings> Watcher::Show(
    const std::vector<WholeFile>& files) {
  auto shown = std::make_shared<trees::Listings>();
  if (!ComesByFile(reader_.kind)) {
    for (const WholeFile& file : files) {
      ShowFile(file.path, shown_);
      steps_.Add(file.path);
    }
    for (auto& [folder, listing] : shown_) SortNames(listing.files);
    *shown = shown_;
    return shown;
  }
  std::set<std::string> folders;
  for (const WholeFile& file : files) {
    ShowFile(file.path, *shown);
    Remember(file.path);
    folders.insert(SplitName(file.path).first);
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

// Returns waiting files, except those that follow a more recent file in their
// folder.
std::vector<WholeFile> Watcher::TakeRound() {
  const auto time = Clock::now();
  const int64_t now_ns = SystemNanoseconds();
  // The first number in each folder that is too recent.
  std::map<std::string, uint64_t> young;
  for (WholeFile& file : whole_) {
    const int64_t age_ns = now_ns - file.stamp.ctime_ns;
    if (age_ns < 0 || age_ns >= std::chrono::nanoseconds(kClockStep).count()) {
      continue;
    }
    // No delay at the end.
    file.has_rested = file.has_rested && !is_ended_;
    const auto [first, is_first] =
        young.try_emplace(SplitName(file.path).first, file.number);
    first->second = std::min(first->second, file.number);
  }
  std::vector<WholeFile> files;
  std::deque<WholeFile> waiting = std::exchange(whole_, {});
  for (WholeFile& file : waiting) {
    const auto first = young.find(SplitName(file.path).first);
    const bool is_old = first == young.end() || file.number < first->second;
    const bool is_in_order =
        is_old && (time - file.time >= kOrderTime || !states_.HasEarlier(file));
    if (files.size() >= kRoundFilesMax || (!is_in_order && !is_ended_)) {
      whole_.push_back(std::move(file));
      continue;
    }
    FileStamp now;
    if (!ReadStamp(folder_.PathOf(file.path), &now)) continue;
    // Its dump has arrived in the meantime.
    if (IsOfSource(file.path, now)) continue;
    if (!(now == file.stamp)) {
      // The file is still being written.
      states_.Written(file.path, file.is_new, Clock::now());
      if (!is_ended_) continue;
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::Status Watcher::DoRound(bool must, bool* is_sent) {
  StreamedTree::Round round;
  std::vector<WholeFile> files = TakeRound();
  for (const WholeFile& file : files) {
    round.files.insert(folder_.PathOf(file.path));
  }
  *is_sent = true;
  if (job_ == nullptr || (files.empty() && !must)) return absl::OkStatus();
  const auto shown = Show(files);
  const bool is_by_file = ComesByFile(reader_.kind);
  FolderStamps past;
  if (is_by_file) {
    round.problems = std::exchange(problems_, {});
  } else {
    past = PastFolders();
    PrepareWhole(round);
  }
  auto opened = reader_.open(folder_.Showing(shown), ReaderOptions());
  if (!opened.ok()) {
    // Other files may complete a tree that is read as a whole.
    const bool may_open = !is_by_file && (!is_ended_ || shown_.empty());
    if (!may_open) return opened.status();
    Await(files);
    return absl::OkStatus();
  }
  const StreamedTree::Rules rules{options_.name_pattern.has_value(),
                                  host_.world_size()};
  StreamedTree tree(*std::move(opened), round, options_.import, rules, *book_,
                    told_);
  const absl::Status sent = job_->Import(tree, root_);
  if (sent.ok()) {
    has_noted_absence_ = false;
    // Includes failed attempts, because the ledger may contain files that they
    // sent.
    const fill::UnstoredCounts before =
        std::exchange(unstored_, job_->unstored());
    const bool is_stored = unstored_ == before;
    Settle(files, is_stored);
    if (!is_by_file) {
      SettleAwaited(is_stored);
      Retire(past, is_stored);
    }
    return absl::OkStatus();
  }
  host_.ledger().Forget();
  whole_.insert(whole_.begin(), std::make_move_iterator(files.begin()),
                std::make_move_iterator(files.end()));
  if (!MayCome(sent)) return sent;
  *is_sent = false;
  NoteAbsence(sent);
  return absl::OkStatus();
}

bool Watcher::MayCome(const absl::Status& status) const {
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    return true;
  }
  // A daemon that temporarily has no room is treated as unavailable. Other
  // limits are permanent.
  return job_ != nullptr &&
         std::any_of(
             std::begin(kPassingReasons), std::end(kPassingReasons),
             [&](ErrorReason reason) { return HasReason(status, reason); });
}

void Watcher::NoteAbsence(const absl::Status& status) {
  if (std::exchange(has_noted_absence_, true)) return;
  host_.Note(std::string(Message(status)) + "; files wait for it");
}

bool Watcher::WaitsForSource(const std::string& path) const {
  const auto [folder, name] = SplitName(path);
  const auto source = SourceOfMinMax(name);
  if (!source) return false;
  const std::string dump = trees::JoinPath(folder, *source);
  FileStamp stamp;
  return ReadStamp(folder_.PathOf(dump), &stamp);
}

bool Watcher::IsOfSource(const std::string& path, const FileStamp& stamp) {
  const auto [folder, name] = SplitName(path);
  const auto source = SourceOfMinMax(name);
  if (!source) return false;
  if (!host_.ledger().HasPath(trees::JoinPath(folder, *source))) return false;
  fill::LedgerEntry entry{
      .path = path, .bytes = stamp.bytes, .mtime_ns = stamp.mtime_ns};
  std::string problem;
  // An import ignores it, too.
  if (host_.ledger().Has(entry, problem)) return true;
  host_.ledger().Add(entry);
  handled_[path] = stamp;
  if (!options_.sources.writes_min_max &&
      !std::exchange(has_noted_converted_, true)) {
    host_.Note("_min_max files of dumps that were imported are skipped");
  }
  return true;
}

bool Watcher::MayWorkOnSources(Clock::time_point now) {
  if (!options_.sources.deletes) return true;
  // The daemon has all waiting files when it responds. A stream that failed may
  // not have reported a conflict.
  const auto holds = host_.HoldsAll(job_->unstored().conflict_count);
  if (holds.ok() && *holds) return true;
  if (!holds.ok()) {
    keeper_.Pause(now);
    return false;
  }
  keeper_.GiveUp();
  takes_known_ = false;
  NoteUnstored();
  return false;
}

void Watcher::WorkOnSources(bool is_end) {
  const auto now = Clock::now();
  if (!keeper_.is_due(now) && (!is_end || keeper_.waiting_count() == 0)) return;
  if (!MayWorkOnSources(now)) return;
  keeper_.Work(now, is_end);
  for (const std::string& made : keeper_.TakeMade()) {
    FileStamp stamp;
    if (ReadStamp(folder_.PathOf(made), &stamp)) (void)IsOfSource(made, stamp);
  }
  if (keeper_.failure().ok()) {
    has_noted_failure_ = false;
  } else if (!std::exchange(has_noted_failure_, true)) {
    host_.Note(std::string(Message(keeper_.failure())) +
               "; dumps are kept until this succeeds");
  }
}

void Watcher::NoteUnstored() {
  if (!keeper_.is_on() || std::exchange(has_noted_unstored_, true)) return;
  host_.Note(
      "the run does not have all tensors as in the files, so these files are "
      "kept");
}

void Watcher::Settle(const std::vector<WholeFile>& files, bool is_stored) {
  if (!is_stored) {
    takes_known_ = false;
    NoteUnstored();
  }
  const int64_t now_ns = SystemNanoseconds();
  if (handled_.size() + files.size() > kHandledMax) handled_.clear();
  for (const WholeFile& file : files) {
    const fill::LedgerEntry entry{.path = file.path,
                                  .bytes = file.stamp.bytes,
                                  .mtime_ns = file.stamp.mtime_ns};
    std::string problem;
    if (!host_.ledger().Has(entry, problem)) {
      handled_[file.path] = file.stamp;
      if (!ComesByFile(reader_.kind)) awaited_[file.path] = file.stamp;
      continue;
    }
    if (is_stored && problem.empty() && file.has_rested) {
      keeper_.Take(file.path, file.stamp);
    } else if (keeper_.is_on()) {
      handled_[file.path] = file.stamp;
    }
    if (!file.is_new) continue;
    lag_.Add(
        std::chrono::milliseconds((now_ns - file.stamp.ctime_ns) / 1'000'000));
  }
}

}  // namespace msitd::watch
