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
#include "client/foreign/watch/streamed_tree.h"

namespace msitd::watch {

struct WatchOptions {
  // Nothing: found by content, once there is some.
  std::optional<trees::TreeKind> kind;
  fill::ImportOptions import;
  // As TreeOptions has it. The mappings come once both are there.
  std::string mapping_folder;
  FileStates::Timing timing;
  // What becomes of files that are in the run.
  SourceKeeper::Options sources;
  // Folders are listed again and again, though the system would tell.
  bool polls = false;
  // Ends when nothing has happened for so long.
  std::optional<std::chrono::milliseconds> until_idle;
};

// What a watch has done beside what its job counts.
struct WatchCounts {
  // Files that are whole and not yet in the run.
  int64_t waiting_count = 0;
  // Files that are not known to be whole; at the end: that never became so.
  int64_t incomplete_count = 0;
  // Calls that came too late to be counted in order of time.
  int64_t late_count = 0;
  // Times that the system lost events.
  int64_t lost_count = 0;
  // Folders without a watch of the system.
  int64_t polled_folder_count = 0;
};

struct IncompleteFile {
  std::string path;
  std::string reason;
};

// What a watch asks of its caller.
class WatchHost {
 public:
  virtual ~WatchHost() = default;

  // The kind of the tree is known. Makes the run ready. Called again if it
  // returned UNAVAILABLE or DEADLINE_EXCEEDED: the daemon is not there.
  virtual absl::Status Begin(trees::TreeKind kind, int32_t world_size,
                             const std::vector<int32_t>& ranks) = 0;
  // After Begin. They outlive the watch; the ledger stays current.
  virtual fill::ImportTarget& target() = 0;
  virtual fill::ImportLedger& ledger() = 0;

  // After Begin: true if the run holds all that its ledger named then, as it
  // was sent: nothing was in conflict, left out or given up.
  virtual bool holds_ledger() = 0;
  // Asks the daemon: true if since Begin the capture policy of the run is the
  // same, and records of `conflict_count` or less were in conflict. An error if
  // it does not answer.
  virtual absl::StatusOr<bool> HoldsAll(int64_t conflict_count) = 0;

  // True if the watch is to end, in good order.
  virtual bool is_stopped() = 0;
  // Called now and then.
  virtual void OnProgress() = 0;
  // A thing that the user should know, once.
  virtual void Note(const std::string& text) = 0;
};

// Brings the files of a folder into a run as they become whole. README.md says
// how. Single-sequence.
class Watcher final : private FileProber {
 public:
  // Of one round. The ledger is written after each.
  static constexpr size_t kRoundFilesMax = 4096;
  static constexpr std::chrono::milliseconds kRoundInterval{200};
  // Of what could not be brought because the daemon is not there.
  static constexpr std::chrono::milliseconds kRetryInterval{1000};
  static constexpr std::chrono::milliseconds kPollInterval{1000};
  // A file waits so long for those of its folder that were seen before it.
  static constexpr std::chrono::milliseconds kOrderTime{700};
  // A file that changed less than so long ago may change once more without
  // another time, because clocks of file systems have steps.
  static constexpr std::chrono::milliseconds kClockStep{50};
  static constexpr size_t kListedIncompleteMax = 1000;

  // Opens the folder at `root`. Borrows `events` and `host`.
  static absl::StatusOr<std::unique_ptr<Watcher>> Open(const std::string& root,
                                                       WatchOptions options,
                                                       FolderEvents& events,
                                                       WatchHost& host);

  // Returns when `host` says so or the folder is idle, and what was whole by
  // then is in the run. Files that are not whole bring what they have. Errors:
  // of `host`; of ImportJob::Import, but that the daemon is not there only at
  // the end.
  absl::Status Run();

  WatchCounts counts() const;
  const SourceKeeper& sources() const { return keeper_; }
  const Lag& lag() const { return lag_; }
  // Null before Begin.
  const fill::ImportJob* job() const { return job_.get(); }
  trees::TreeKind kind() const { return reader_.kind; }
  // Of the end, the first ones.
  const std::vector<IncompleteFile>& incomplete() const { return incomplete_; }

 private:
  using Clock = std::chrono::steady_clock;

  Watcher(trees::TreeFolder folder, std::string root, WatchOptions options,
          FolderEvents& events, WatchHost& host);

  // FileProber implementation. A file that is dealt with is none.
  bool Stat(const std::string& path, FileStamp* stamp) override;
  Length Probe(const std::string& path, std::string* reason) override;

  absl::Status Step();
  absl::Status End();
  absl::Status TakeEvents(std::chrono::milliseconds limit);
  void Take(const FolderEvent& event);
  // Watches the folder and those in it, and takes what lies there.
  void Walk(const std::string& folder, bool is_new);
  void WatchFolder(const std::string& folder);
  void TakeListing(const std::string& folder, trees::Listing listing,
                   bool is_new);
  void Poll();
  std::chrono::milliseconds WaitLimit() const;
  bool IsIdle() const;

  // Finds out the kind, if that can be; `must`: now or never.
  absl::Status TryBegin(bool must);
  // True if the daemon is not there, and may come.
  bool MayCome(const absl::Status& status) const;
  void NoteAbsence(const absl::Status& status);
  absl::Status Begin(const trees::TreeReader& reader);

  std::vector<WholeFile> TakeRound();
  // Brings files that wait; with `must`, attachments even if there are none.
  // `is_sent` is false if the daemon is not there.
  absl::Status DoRound(bool must, bool* is_sent);
  std::shared_ptr<const trees::Listings> Show(
      const std::vector<WholeFile>& files);
  void ShowFile(const std::string& path, trees::Listings& shown);
  void Remember(const std::string& path);
  // `is_stored`: the run has all records of these files as they are.
  void Settle(const std::vector<WholeFile>& files, bool is_stored);
  void NoteUnstored();
  // True for a `_min_max` file of a dump that the run has: nothing to bring.
  bool IsOfSource(const std::string& path, const FileStamp& stamp);
  // True for one whose dump is there, and not in the run.
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

  // Files that the ledger does not name, and that are dealt with nevertheless.
  std::unordered_map<std::string, FileStamp> handled_;
  // One known file of each folder that other ops depend on, by its path.
  std::map<std::string, std::string> landmarks_;
  // All that was shown, of trees that do not come by file.
  trees::Listings shown_;
  StreamedTree::ToldProblems told_;
  std::vector<trees::TreeProblem> problems_;

  std::set<std::string> polled_;
  bool has_noted_limit_ = false;
  bool has_noted_absence_ = false;
  bool has_noted_unstored_ = false;
  bool has_noted_failure_ = false;
  bool has_noted_converted_ = false;
  // See WatchHost::holds_ledger. False once a round was not stored as it was
  // sent, because its files are in the ledger, too.
  bool takes_known_ = false;
  // Of the job, after the last round.
  fill::UnstoredCounts unstored_;
  bool has_root_ = true;
  int64_t lost_count_ = 0;
  bool is_ended_ = false;
  std::vector<IncompleteFile> incomplete_;
  int64_t incomplete_count_ = 0;

  Clock::time_point activity_time_;
  Clock::time_point first_file_time_ = Clock::time_point::max();
  Clock::time_point poll_time_;
  Clock::time_point round_time_;
  Clock::time_point detect_time_;
};

}  // namespace msitd::watch
