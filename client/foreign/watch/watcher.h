// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/foreign/fill/import_job.h"
#include "client/foreign/formats/atb_reference.h"
#include "client/foreign/trees/detect.h"
#include "client/foreign/trees/tree_folder.h"
#include "client/foreign/watch/call_book.h"
#include "client/foreign/watch/file_states.h"
#include "client/foreign/watch/folder_events.h"
#include "client/foreign/watch/lag.h"
#include "client/foreign/watch/source_keeper.h"
#include "client/foreign/watch/step_folders.h"
#include "client/foreign/watch/streamed_tree.h"

namespace msitd::watch {

struct WatchOptions {
  // Nothing: detected from the content, once there is any.
  std::optional<trees::TreeKind> kind;
  // As in TreeOptions, except that `kind` must be kFiles. The watch begins when
  // a file matches and there was time for files of all ranks to appear.
  std::optional<trees::NamePattern> name_pattern;
  fill::ImportOptions import;
  // As in TreeOptions. The mappings are read once both exist.
  std::string mapping_folder;
  FileStates::Timing timing;
  // The treatment of files that are in the run.
  SourceKeeper::Options sources;
  // Lists folders periodically, even if the system could report changes.
  bool polls = false;
  // Ends after this time without any event.
  std::optional<std::chrono::milliseconds> until_idle;
};

// Counts of a watch in addition to those of its job.
struct WatchCounts {
  // Complete files that are not yet in the run.
  int64_t waiting_count = 0;
  // Files that are not known to be complete; at the end, files that never were.
  int64_t incomplete_count = 0;
  // Calls that arrived too late to be numbered in the order of time.
  int64_t late_count = 0;
  // How often the system lost events.
  int64_t lost_count = 0;
  // Folders without a watch of the system.
  int64_t polled_folder_count = 0;
};

struct IncompleteFile {
  std::string path;
  std::string reason;
};

// Operations of the caller that a watch needs.
class WatchHost {
 public:
  virtual ~WatchHost() = default;

  // Called when the kind of the tree is known. Prepares the run. Called again
  // if it returned UNAVAILABLE or DEADLINE_EXCEEDED, which mean that the daemon
  // cannot be reached.
  virtual absl::Status Begin(trees::TreeKind kind, int32_t world_size,
                             const std::vector<int32_t>& ranks) = 0;
  // Called after Begin. The objects outlive the watch; the ledger stays
  // current.
  virtual fill::ImportTarget& target() = 0;
  virtual fill::ImportLedger& ledger() = 0;
  // Called after Begin. Returns the number of ranks of the run; 0 if it is not
  // known.
  virtual int32_t world_size() { return 0; }

  // Called after Begin. Returns true if the run has everything that its ledger
  // listed then, as it was sent: without conflicts, filtered or dropped
  // records.
  virtual bool holds_ledger() = 0;
  // Queries the daemon. Returns true if, since Begin, the capture policy of the
  // run has not changed and at most `conflict_count` records were in conflict.
  // Returns an error if the daemon does not respond.
  virtual absl::StatusOr<bool> HoldsAll(int64_t conflict_count) = 0;

  // Returns true if the watch is to end in an orderly manner.
  virtual bool is_stopped() = 0;
  // Called repeatedly.
  virtual void OnProgress() = 0;
  // Reports information for the user, once.
  virtual void Note(const std::string& text) = 0;
};

// Imports the files of a folder into a run as they become complete. README.md
// describes the procedure. Single-sequence.
class Watcher final : private FileProber {
 public:
  // Files of one round. The ledger is written after each round.
  static constexpr size_t kRoundFilesMax = 4096;
  static constexpr std::chrono::milliseconds kRoundInterval{200};
  // The delay before retrying files that could not be sent because the daemon
  // cannot be reached.
  static constexpr std::chrono::milliseconds kRetryInterval{1000};
  static constexpr std::chrono::milliseconds kPollInterval{1000};
  // The time that a file waits for files of its folder that were seen before
  // it.
  static constexpr std::chrono::milliseconds kOrderTime{700};
  // A file that changed less than this ago may change once more without a new
  // modification time, because the clocks of file systems have steps.
  static constexpr std::chrono::milliseconds kClockStep{50};
  static constexpr size_t kListedIncompleteMax = 1000;

  // Opens the folder at `root`. Borrows `events` and `host`.
  static absl::StatusOr<std::unique_ptr<Watcher>> Open(const std::string& root,
                                                       WatchOptions options,
                                                       FolderEvents& events,
                                                       WatchHost& host);

  // Returns when `host` requests it or the folder is idle. Files that were
  // complete by then are in the run, and of incomplete files everything that
  // could be read. Errors: those of `host`, and those of ImportJob::Import; an
  // unreachable daemon is an error only at the end.
  absl::Status Run();

  WatchCounts counts() const;
  const SourceKeeper& sources() const { return keeper_; }
  const Lag& lag() const { return lag_; }
  // Null before Begin.
  const fill::ImportJob* job() const { return job_.get(); }
  trees::TreeKind kind() const { return reader_.kind; }
  // Incomplete files at the end: the first ones.
  const std::vector<IncompleteFile>& incomplete() const { return incomplete_; }

 private:
  using Clock = std::chrono::steady_clock;

  Watcher(trees::TreeFolder folder, std::string root, WatchOptions options,
          FolderEvents& events, WatchHost& host);

  // FileProber implementation. Files that were processed are reported as
  // absent.
  bool Stat(const std::string& path, FileStamp* stamp) override;
  Length Probe(const std::string& path, std::string* reason) override;

  absl::Status Step();
  absl::Status End();
  absl::Status TakeEvents(std::chrono::milliseconds limit);
  void Take(const FolderEvent& event);
  // Watches the folder and its subfolders, and processes their contents.
  void Walk(const std::string& folder, bool is_new);
  void WatchFolder(const std::string& folder);
  void TakeListing(const std::string& folder, trees::Listing listing,
                   bool is_new);
  void Poll();
  std::chrono::milliseconds WaitLimit() const;
  bool IsIdle() const;

  // Detects the kind, if possible. `must`: there is no later attempt.
  absl::Status TryBegin(bool must);
  // Begins with the kind that the user has set, once there is such a tree.
  absl::Status TryBeginAs(trees::TreeKind kind, bool must);
  absl::Status CheckKind(trees::TreeKind kind) const;
  // Remembers the first file of those that may determine the ranks. With a name
  // pattern, these are the files that match it.
  void NoteFile(const std::string& path, Clock::time_point now);
  // Replaces the first file with another pending one if it is gone.
  void CheckFirstFile(Clock::time_point now);
  // Returns true if such files have appeared, and there was time for more.
  bool HasSettledFiles(Clock::time_point now);
  trees::TreeOptions ReaderOptions() const;
  // Returns true if the daemon cannot be reached but may become available.
  bool MayCome(const absl::Status& status) const;
  void NoteAbsence(const absl::Status& status);
  absl::Status Begin(const trees::TreeReader& reader, const trees::Tree& tree);

  std::vector<WholeFile> TakeRound();
  // Imports waiting files. With `must`, imports attachments even if no files
  // wait. `is_sent` is false if the daemon cannot be reached.
  absl::Status DoRound(bool must, bool* is_sent);

  // For trees that are read as a whole, in whole_round.cc.
  //
  // Adds to the round what is known of all files.
  void PrepareWhole(StreamedTree::Round& round);
  // Handles files of a tree that cannot be opened yet.
  void Await(const std::vector<WholeFile>& files);
  // Handles files that a former round could not import.
  void SettleAwaited(bool is_stored);
  // Stops reading step folders that are complete. `stamps` are those that their
  // documents had before the round.
  using FolderStamps = std::map<std::string, std::map<std::string, FileStamp>>;
  FolderStamps PastFolders() const;
  void Retire(const FolderStamps& folders, bool is_stored);
  bool IsAwaited(const std::string& folder) const;
  bool HasProblemIn(const std::string& folder) const;
  void Hide(const std::string& folder);
  std::shared_ptr<const trees::Listings> Show(
      const std::vector<WholeFile>& files);
  void ShowFile(const std::string& path, trees::Listings& shown);
  void Remember(const std::string& path);
  // `is_stored`: the run has all records of these files as they are.
  void Settle(const std::vector<WholeFile>& files, bool is_stored);
  void NoteUnstored();
  // Returns true for a `_min_max` file of a dump that the run has, which is not
  // imported.
  bool IsOfSource(const std::string& path, const FileStamp& stamp);
  // Returns true for such a file whose dump exists and is not in the run.
  bool WaitsForSource(const std::string& path) const;
  bool MayWorkOnSources(Clock::time_point now);
  void WorkOnSources(bool is_end);

  const trees::TreeFolder folder_;
  const std::string root_;
  const WatchOptions options_;
  FolderEvents& events_;
  WatchHost& host_;

  trees::TreeReader reader_ = {};
  std::unique_ptr<fill::ImportJob> job_;
  std::unique_ptr<CallBook> book_;
  formats::AtbFolders atb_folders_;
  FileStates states_;
  std::deque<WholeFile> whole_;
  SourceKeeper keeper_;
  Lag lag_;

  // Files that were processed although the ledger does not list them.
  std::unordered_map<std::string, FileStamp> handled_;
  // One known file of each folder on which other ops depend, by its path.
  std::map<std::string, std::string> landmarks_;
  // All files that the reader was given, for trees that are not read file by
  // file.
  trees::Listings shown_;
  StepFolders steps_;
  // Files of such a tree that were shown, but are not in the run yet.
  std::map<std::string, FileStamp> awaited_;
  StreamedTree::ToldProblems told_;
  std::vector<trees::TreeProblem> problems_;

  std::set<std::string> polled_;
  bool has_noted_limit_ = false;
  bool has_noted_absence_ = false;
  bool has_noted_unstored_ = false;
  bool has_noted_failure_ = false;
  bool has_noted_converted_ = false;
  // See WatchHost::holds_ledger. False after a round that was not stored as it
  // was sent, because the ledger lists its files, too.
  bool takes_known_ = false;
  // The counts of the job after the last round.
  fill::UnstoredCounts unstored_;
  bool has_root_ = true;
  int64_t lost_count_ = 0;
  bool is_ended_ = false;
  std::vector<IncompleteFile> incomplete_;
  int64_t incomplete_count_ = 0;

  Clock::time_point activity_time_;
  std::string first_file_;
  Clock::time_point first_file_time_ = Clock::time_point::max();
  Clock::time_point poll_time_;
  Clock::time_point round_time_;
  Clock::time_point detect_time_;
};

}  // namespace msitd::watch
