// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/index_rebuild.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "protos/status/status.h"
#include "storage/check/store_view.h"
#include "storage/env/directory_lock.h"
#include "storage/index/db/log_position.h"
#include "storage/log_replay.h"
#include "storage/rebuild/index_salvage.h"
#include "storage/rebuild/index_swap.h"
#include "storage/rebuild/log_survey.h"
#include "storage/rebuild/run_choice.h"
#include "storage/store_files.h"

namespace msitd::storage {
namespace {

namespace fs = std::filesystem;

// Removes a directory that was not finished.
class Unfinished {
 public:
  explicit Unfinished(std::string path) : path_(std::move(path)) {}
  ~Unfinished() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  void Keep() { path_.clear(); }

 private:
  std::string path_;
};

class IndexRebuild {
 public:
  IndexRebuild(const RebuildOptions& options, Env& env,
               const std::function<void(const StoreProblem&)>& report)
      : options_(options),
        env_(env),
        on_problem_(report),
        swap_(env, options.directory),
        target_(options.target.empty() ? swap_.building() : options.target) {}

  absl::StatusOr<RebuildReport> Run() {
    MSITD_RETURN_IF_ERROR(CheckTarget());
    MSITD_ASSIGN_OR_RETURN(
        DirectoryLock lock,
        DirectoryLock::Acquire(options_.directory,
                               replaces() ? DirectoryLock::Mode::kExclusive
                                          : DirectoryLock::Mode::kShared));
    if (replaces()) MSITD_RETURN_IF_ERROR(swap_.Prepare());
    MSITD_ASSIGN_OR_RETURN(
        files_, ListSegments(env_, SegmentDirectory(options_.directory)));
    Unfinished unfinished(target_);
    MSITD_RETURN_IF_ERROR(env_.CreateDirectory(target_));
    MSITD_ASSIGN_OR_RETURN(
        old_, IndexSalvage::Open(swap_.current(), target_ + "/salvage"));
    MSITD_RETURN_IF_ERROR(FindStoreId());
    MSITD_RETURN_IF_ERROR(Build());
    MSITD_ASSIGN_OR_RETURN(std::unique_ptr<ChunkIndex> index, Fill());
    AddNotes();
    report_.damage = old_->damage();
    old_.reset();
    MSITD_RETURN_IF_ERROR(Check(std::move(lock), std::move(index)));
    unfinished.Keep();
    return std::move(report_);
  }

 private:
  // True if the new index takes the place of the old one.
  bool replaces() const { return options_.target.empty(); }

  absl::Status CheckTarget() {
    if (replaces()) return absl::OkStatus();
    std::error_code error;
    const bool is_empty = fs::is_empty(options_.target, error);
    if (error == std::errc::no_such_file_or_directory || (!error && is_empty)) {
      return absl::OkStatus();
    }
    if (error) return ErrnoStatus(error.value(), "look at " + options_.target);
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "{} is not empty: name a directory that does not exist",
                      options_.target);
  }

  absl::Status FindStoreId() {
    const uint64_t logged = MostFrequentStoreId(files_);
    const std::optional<std::string> stored = old_->Get(Table::kMeta, "store");
    bool is_newest = false;
    if (!stored.has_value() || !DecodeStoreId(*stored, store_id_, is_newest)) {
      store_id_ = 0;
      const int version = stored.has_value() ? NewerStoreVersion(*stored) : 0;
      if (version != 0) {
        return MakeStatus(absl::StatusCode::kFailedPrecondition,
                          "the store is of version {}, written by a newer "
                          "msitd; this program reads versions up to {}: use "
                          "msitd-inspect of the newer msitd",
                          version, StoreVersion());
      }
    }
    if (store_id_ == 0) store_id_ = logged;
    if (store_id_ == 0) {
      return MakeStatus(
          absl::StatusCode::kDataLoss,
          "{} has no index that can be read, and no segment with a sound "
          "header: there is nothing to rebuild from",
          options_.directory);
    }
    uint64_t own_count = 0;
    for (const SegmentFile& file : files_) {
      own_count += file.IsForeignTo(store_id_) ? 0 : 1;
      if (!file.IsForeignTo(store_id_)) continue;
      Note(fmt::format("{} does not belong to this store and was left out",
                       file.path));
    }
    if (own_count == 0 && !files_.empty()) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "the index and the segments in {} are of different "
                        "stores: move the index away to rebuild from the "
                        "segments",
                        options_.directory);
    }
    return absl::OkStatus();
  }

  // Makes the new index with everything that follows from no frame.
  absl::Status Build() {
    MSITD_ASSIGN_OR_RETURN(const LoggedRuns logged,
                           SurveyLog(env_, files_, store_id_));
    MSITD_ASSIGN_OR_RETURN(runs_, ChooseRuns(*old_, logged));
    MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<ChunkIndex> index, OpenNew());
    MSITD_RETURN_IF_ERROR(index->Initialise(store_id_));
    MSITD_ASSIGN_OR_RETURN(report_.import,
                           ImportOldIndex(*old_, runs_, index->db()));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenNew() {
    return ChunkIndex::Open({.directory = target_, .env = &env_});
  }

  // Puts the entries of all frames into the new index.
  absl::StatusOr<std::unique_ptr<ChunkIndex>> Fill() {
    MSITD_ASSIGN_OR_RETURN(std::unique_ptr<ChunkIndex> index, OpenNew());
    LogReplay replay(*index, env_);
    MSITD_RETURN_IF_ERROR(replay.Begin(files_));
    const auto position = old_->Get(Table::kMeta, "log_position");
    LogPosition durable;
    if (position.has_value() && DecodePosition(*position, durable)) {
      replay.set_durable(durable);
    }
    for (const SegmentFile& file : files_) {
      MSITD_RETURN_IF_ERROR(Annotate(replay.Add(file), "read " + file.path));
    }
    MSITD_RETURN_IF_ERROR(replay.Finish());
    report_.torn_frame_count = replay.counts().torn;
    report_.corrupt_frame_count = replay.counts().corrupt;
    report_.unread_segment_count = replay.Awaited(files_, OldNewest()).size();
    if (!old_->IsComplete(Table::kSegment)) {
      MSITD_ASSIGN_OR_RETURN(report_.lost_marks,
                             FindLostMarks(*index, env_, files_));
    }
    MSITD_ASSIGN_OR_RETURN(report_.old_entries,
                           TakeOldEntries(*old_, runs_, files_, *index));
    MSITD_RETURN_IF_ERROR(PassLostFrames(replay, *index));
    MSITD_RETURN_IF_ERROR(index->db().Flush());
    MSITD_RETURN_IF_ERROR(index->SetNewest(NewestOf(replay)));
    return index;
  }

  // A start would wait for frames that the header of a later segment knows of,
  // although there is no file that has them.
  static absl::Status PassLostFrames(const LogReplay& replay,
                                     ChunkIndex& index) {
    if (replay.known_ends().empty()) return absl::OkStatus();
    const auto& [number, end] = *replay.known_ends().rbegin();
    LogPosition position = replay.reached();
    if (std::pair(number, end) <=
        std::pair(position.segment_id, position.offset)) {
      return absl::OkStatus();
    }
    position.segment_id = number;
    position.offset = end;
    return index.Advance(position);
  }

  NewestSegment OldNewest() {
    NewestSegment newest;
    const auto old = old_->Get(Table::kMeta, "newest_segment");
    if (old.has_value()) DecodeNewestSegment(*old, newest);
    return newest;
  }

  // Numbers of segments that are lost are not used again, because their files
  // may be found later.
  NewestSegment NewestOf(const LogReplay& replay) {
    NewestSegment newest = OldNewest();
    newest.segment_id =
        std::max(newest.segment_id, replay.reached().segment_id);
    for (const auto& [number, end] : replay.known_ends()) {
      newest.segment_id = std::max(newest.segment_id, number);
    }
    for (const SegmentFile& file : files_) {
      if (file.IsForeignTo(store_id_)) continue;
      newest.segment_id = std::max(newest.segment_id, ToNumber(file.id));
    }
    newest.is_indexed = true;
    return newest;
  }

  void Note(std::string text) { report_.notes.push_back(std::move(text)); }

  void AddNotes() {
    report_.kept_run_count = runs_.kept.size();
    report_.deleted_run_count = runs_.deleted.size();
    for (const RunInfo& run : runs_.recovered) {
      report_.recovered_runs.push_back(run.spec.name);
    }
    if (!runs_.recovered.empty()) {
      Note(
          fmt::format("{} runs have lost their labels, owner, job and "
                      "settings, and are not sealed",
                      runs_.recovered.size()));
      Note("deleted runs may be back, as far as segments still have them");
    }
    if (!old_->IsComplete(Table::kRun)) {
      Note("runs without frames, coverage and attachments may be lost");
    }
    if (!old_->IsComplete(Table::kComparison)) {
      Note("comparisons may be lost, deleted ones may be back");
    }
    const ImportCounts& import = report_.import;
    if (import.lost_comparison_count > 0 || import.cut_comparison_count > 0) {
      Note(fmt::format("{} comparisons are lost, and {} have lost rows",
                       import.lost_comparison_count,
                       import.cut_comparison_count));
    }
    if (import.lost_attachment_count > 0) {
      Note(
          fmt::format("{} attachments are lost", import.lost_attachment_count));
    }
    const bool has_entries =
        old_->IsComplete(Table::kTensor) && old_->IsComplete(Table::kName);
    if (!has_entries) {
      Note("summaries of tensors whose segments had been removed may be lost");
    }
    if (report_.old_entries.lost_count > 0) {
      Note(
          fmt::format("summaries of {} tensors whose segments had been "
                      "removed are lost",
                      report_.old_entries.lost_count));
    }
    if (report_.lost_marks.given_up_bytes > 0) {
      Note(
          fmt::format("{} bytes of tensors read as zeros and count as given "
                      "up by retention",
                      report_.lost_marks.given_up_bytes));
    }
  }

  // Checks every frame against the new index, and puts that in place.
  absl::Status Check(DirectoryLock lock, std::unique_ptr<ChunkIndex> index) {
    MSITD_ASSIGN_OR_RETURN(StoreView view,
                           StoreView::Over(options_.directory, env_,
                                           std::move(lock), std::move(index)));
    if (options_.checks_frames) {
      MSITD_ASSIGN_OR_RETURN(report_.check, CheckStore(view, on_problem_));
    }
    MSITD_RETURN_IF_ERROR(view.index().db().Flush());
    view.index().db().End();
    MSITD_RETURN_IF_ERROR(GiveToOwner());
    MSITD_RETURN_IF_ERROR(env_.SyncDirectory(target_));
    report_.index = options_.target;
    if (!replaces()) return absl::OkStatus();
    report_.index = IndexDirectory(options_.directory);
    MSITD_ASSIGN_OR_RETURN(report_.old_index, swap_.Swap());
    return absl::OkStatus();
  }

  // If root rebuilds the index, it still belongs to the user of the daemon.
  absl::Status GiveToOwner() {
    if (::geteuid() != 0) return absl::OkStatus();
    struct stat owner {};
    if (::stat(SegmentDirectory(options_.directory).c_str(), &owner) != 0) {
      return ErrnoStatus(errno, "look at the segments");
    }
    std::vector<std::string> paths = {target_};
    if (replaces()) paths.push_back(options_.directory + "/LOCK");
    std::error_code error;
    for (fs::recursive_directory_iterator it(target_, error), end;
         !error && it != end; it.increment(error)) {
      paths.push_back(it->path().string());
    }
    if (error) return ErrnoStatus(error.value(), "list " + target_);
    for (const std::string& path : paths) {
      if (::lchown(path.c_str(), owner.st_uid, owner.st_gid) != 0) {
        return ErrnoStatus(errno, "change the owner of " + path);
      }
    }
    return absl::OkStatus();
  }

  const RebuildOptions& options_;
  Env& env_;
  const std::function<void(const StoreProblem&)>& on_problem_;
  IndexSwap swap_;
  const std::string target_;
  std::vector<SegmentFile> files_;
  std::unique_ptr<IndexSalvage> old_;
  uint64_t store_id_ = 0;
  RunChoice runs_;
  RebuildReport report_;
};

}  // namespace

absl::StatusOr<RebuildReport> RebuildIndex(
    const RebuildOptions& options, Env& env,
    const std::function<void(const StoreProblem&)>& report) {
  absl::StatusOr<RebuildReport> out = IndexRebuild(options, env, report).Run();
  if (!out.ok()) {
    return Annotate(out.status(), "rebuild the index of " + options.directory);
  }
  return out;
}

}  // namespace msitd::storage
