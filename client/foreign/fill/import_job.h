// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/foreign/fill/doubled_records.h"
#include "client/foreign/fill/file_feed.h"
#include "client/foreign/fill/import_ledger.h"
#include "client/foreign/fill/import_problems.h"
#include "client/foreign/fill/tensor_deriver.h"
#include "client/foreign/trees/tree.h"
#include "client/libmsit/core/client.h"

namespace msitd::fill {

// Settings of the user that replace properties of a tree.
struct ImportOptions {
  // Only for a tree with at most one rank.
  std::optional<int32_t> rank;
  std::optional<int64_t> token;
  // The device of tensors for which the tree has none. Empty: the default of
  // the client.
  std::string device;
  // Put before each op.
  std::string prefix;
  // Opens the files, but sends and remembers nothing.
  bool is_dry_run = false;
  // Streams stay open after Import, for a job that imports repeatedly. The
  // ledger is written only at the end of each Import.
  bool keeps_streams = false;
  // False for a run that belongs to its program and is never imported into
  // again. The ledger is neither read nor written.
  bool keeps_ledger = true;
  // Records the statistics of tensors whose files are missing. The files cannot
  // be imported later.
  bool takes_substitutes = false;
  // Called with each record that was sent, unless it is null.
  std::function<void(const libmsit::TensorView& record)> on_sent = {};
  // Borrowed. Determines what is kept of each tensor. Null: the tensor itself.
  TensorDeriver* deriver = nullptr;
  // How long the daemon may accept nothing before the job fails.
  std::chrono::microseconds patience{std::chrono::minutes(2)};
};

// Returns the entry with the settings of the user applied.
trees::TreeEntry Renamed(const ImportOptions& options, trees::TreeEntry entry);

// The result of an import. For a dry run: the result that it would have.
struct ImportCounts {
  int64_t file_count = 0;
  int64_t tensor_count = 0;
  int64_t value_count = 0;
  int64_t statistics_count = 0;
  int64_t document_count = 0;
  int64_t attachment_count = 0;
  // The total of tensors and documents.
  int64_t size_bytes = 0;
  // Files that the run already had.
  int64_t skipped_file_count = 0;
  // Records that the capture policy of the run excludes.
  int64_t filtered_count = 0;
  // Records that the run has with other bytes.
  int64_t conflict_count = 0;
  // The part of `tensor_count` that was recorded instead of tensors of a file.
  int64_t derived_count = 0;
  // Tensors of files of which nothing is kept, and tensors for which
  // ImportOptions::deriver has no result.
  int64_t unkept_count = 0;
  int64_t underived_count = 0;
  // Objects in files of tensors that are neither tensors nor plain values, such
  // as numbers of NumPy. They are not imported.
  int64_t object_count = 0;
};

// Records that were sent but are not in the run as they were sent: its capture
// policy excludes them, or it has other bytes.
struct UnstoredCounts {
  int64_t filtered_count = 0;
  int64_t conflict_count = 0;

  friend bool operator==(const UnstoredCounts&,
                         const UnstoredCounts&) = default;
};

// The operations on a run that a job needs.
class ImportTarget {
 public:
  virtual ~ImportTarget() = default;

  // Opens the stream of a rank. The stream blocks for up to `patience` when the
  // daemon accepts nothing, and drops nothing before. It polls `interrupt`.
  virtual absl::StatusOr<std::unique_ptr<libmsit::Client>> OpenRank(
      int32_t rank, libmsit::InterruptCheck interrupt) = 0;

  // Stores `bytes` with the run, and replaces any attachment with this name.
  // Returns CANCELLED on an interrupt. A call after the interrupt takes a few
  // seconds at most.
  virtual absl::Status Attach(const std::string& name,
                              const std::string& media_type,
                              std::string_view bytes) = 0;

  // Returns true if the user has cancelled the import.
  virtual bool is_interrupted() = 0;

  // Called repeatedly during the import.
  virtual void OnProgress(const ImportCounts& counts,
                          int64_t problem_count) = 0;
};

// Sends the entries of the trees of one source that are not in the ledger to a
// run, one rank after another. A file is in the ledger once the daemon has
// acknowledged all of its records. An import that was interrupted for any
// reason therefore continues at the same position when it is started again.
//
// Thread-compatible.
class ImportJob {
 public:
  // The interval at which the ledger is saved while records are sent.
  static constexpr std::chrono::milliseconds kSaveInterval{2000};

  // The maximum number of files whose objects are named.
  static constexpr size_t kObjectFilesMax = 16;

  // Streams that are kept open. Streams of further ranks are opened each time.
  static constexpr size_t kKeptStreamsMax = 16;

  // Borrows `target` and `ledger`.
  ImportJob(ImportOptions options, ImportTarget& target, ImportLedger& ledger);
  ~ImportJob();

  // Sends one tree, which was opened at `root`. Files that cannot be read are
  // reported as problems, not as an error.
  //
  // Errors: CANCELLED by the user; UNAVAILABLE if the daemon accepted nothing
  // for too long; FAILED_PRECONDITION if it rejects the stream;
  // INVALID_ARGUMENT if `rank` is given and the tree has several ranks; errors
  // of `target`. The ledger contains what was sent before the error.
  absl::Status Import(trees::Tree& tree, const std::string& root);

  // Forgets the problems that were reported so far, for a job that reads all
  // files again in each import.
  void ForgetProblems() { problems_ = {}; }

  // The counts for all records that were sent so far.
  UnstoredCounts unstored() const;

  // Writes entries to the run that others added to the ledger between two
  // imports.
  absl::Status SaveAdded();

  // Ends the streams that are kept open. The counts are final after this.
  void EndStreams();

  const ImportCounts& counts() const { return counts_; }
  const ImportProblems& problems() const { return problems_; }
  // The first objects of ImportCounts::object_count, by file, such as
  // `a.pt: loss (a NumPy number)`.
  const std::vector<std::string>& first_objects() const {
    return first_objects_;
  }
  // Includes the conflicts between files of this import.
  const DoubledRecords& doubled() const { return doubled_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Values between two files of one rank.
  struct ValueBlock {
    std::vector<trees::TreeEntry> entries;
    uint64_t bytes = 0;
  };

  absl::Status ImportEntries(trees::Tree& tree);
  absl::Status ImportAttachments(const trees::Tree& tree);
  void ReadAhead(const trees::TreeEntry& entry) const;
  // Reads or updates the ledger, unless the options disable it.
  bool Has(const LedgerEntry& entry, std::string& problem) const;
  void Remember(const LedgerEntry& entry);
  absl::Status ImportEntry(trees::TreeEntry entry);
  absl::Status ImportFile(const trees::TreeEntry& entry);
  // Returns false if the previous entry was another tensor of the same file.
  bool IsNextFile(const trees::TreeEntry& entry);
  // Sends the tensors of the open file. `problem` receives the reason if
  // tensors are missing.
  absl::Status SendTensors(const trees::TreeEntry& entry,
                           LedgerEntry& in_ledger, absl::Status& problem);
  // Sends one tensor and counts its records. Sets `problem` on failure.
  absl::Status SendTensor(const trees::TreeEntry& entry,
                          const formats::ForeignTensor& tensor,
                          LedgerEntry& in_ledger, absl::Status& problem);
  // The same for the tensors derived from it.
  absl::Status SendDerived(const trees::TreeEntry& entry,
                           const formats::ForeignTensor& tensor,
                           const TensorKey& key, LedgerEntry& in_ledger,
                           absl::Status& problem);
  // Returns what is kept of the tensor.
  absl::StatusOr<std::vector<DerivedTensor>> Derive(
      const formats::ForeignTensor& tensor, const TensorKey& key);
  absl::Status SendValues();
  // Sends one value. Sets `problem` on failure.
  absl::Status SendValue(const trees::TreeEntry& value, absl::Status& problem);
  // Sends a record to the client of its rank. Sets `problem` if the record
  // itself is invalid.
  absl::Status Send(int32_t rank, const libmsit::TensorView& record,
                    absl::Status& problem);
  // Returns why the client rejected a record.
  absl::Status WhyDropped(const libmsit::Status& dropped);
  // Returns why the client has not delivered all records in time.
  absl::Status WhyLate();

  // The stream of a rank while another rank is being sent.
  struct Parked {
    std::unique_ptr<libmsit::Client> client;
    uint64_t given_up_count = 0;
    // Since Import began.
    bool is_used = false;
  };

  absl::Status OpenRank(int32_t rank);
  // Sets the stream aside, or resumes it.
  void Park();
  bool Unpark(int32_t rank);
  // Waits until all data that was sent to kept streams is acknowledged, and
  // records this in the ledger.
  absl::Status SettleKept();
  // Waits until all data that was sent is acknowledged, and records this in the
  // ledger.
  absl::Status CloseRank();
  // At regular intervals, reports progress and enters acknowledged files in the
  // ledger. Returns CANCELLED if the user has cancelled the import.
  absl::Status SaveInTime();
  // Returns an error if the daemon has not kept everything that was sent.
  absl::Status CheckDelivery();
  // Writes the unsaved parts of the ledger. An unreachable daemon is an error
  // only if `must` is true, and only after `patience`.
  absl::Status SaveLedger(bool must);
  // Puts a mark after the data that was sent, in the stream and in the ledger.
  void Mark();
  // After an error, enters the files that were acknowledged nevertheless. If
  // `waits`, waits briefly for more.
  void SalvageRank(bool waits);
  void EndClient();

  // Counts the objects of the open file.
  void CountObjects(const std::string& file);
  void TakeProblems(trees::Tree& tree);
  std::string Below(const std::string& file) const;

  const ImportOptions options_;
  ImportTarget& target_;
  ImportLedger& ledger_;
  ImportCounts counts_;
  ImportProblems problems_;
  std::vector<std::string> first_objects_;
  DoubledRecords doubled_;
  FileFeed feed_;
  std::string counted_file_;  // The file of the previous entry.
  uint64_t last_tensor_bytes_ =
      0;  // The size of the tensor that was sent last.
  std::string root_;
  ValueBlock values_;

  // Set while an interrupt must not end the work of the client.
  bool is_deaf_ = false;
  std::unique_ptr<libmsit::Client> client_;
  int32_t rank_ = -1;
  std::map<int32_t, Parked> parked_;
  // The position of the client's mark, and the records that it has given up
  // because a file failed.
  uint64_t mark_ = 0;
  uint64_t given_up_count_ = 0;
  Clock::time_point save_time_;
  Clock::time_point tick_time_;
};

}  // namespace msitd::fill
