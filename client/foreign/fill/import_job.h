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

// What the user says of a tree, in place of what the tree says.
struct ImportOptions {
  // Of a tree with one rank at most.
  std::optional<int32_t> rank;
  std::optional<int64_t> token;
  // Of tensors whose device the tree does not say. Empty: that of the client.
  std::string device;
  // Stands before each op.
  std::string prefix;
  // Files are opened, and nothing is sent or remembered.
  bool is_dry_run = false;
  // Streams stay open behind Import, for a job that imports again and again.
  // The ledger is written at the end of each Import only.
  bool keeps_streams = false;
  // False for a run that goes with its program, and gets no second import: the
  // ledger is neither asked nor written.
  bool keeps_ledger = true;
  // Called with each record that was sent, unless it is null.
  std::function<void(const libmsit::TensorView& record)> on_sent = {};
  // Borrowed. Says what is kept of each tensor; null: all of it.
  TensorDeriver* deriver = nullptr;
  // How long the daemon may take nothing, before the job ends.
  std::chrono::microseconds patience{std::chrono::minutes(2)};
};

// The entry as the user wants it.
trees::TreeEntry Renamed(const ImportOptions& options, trees::TreeEntry entry);

// What an import has done. Of a dry run: what it would do.
struct ImportCounts {
  int64_t file_count = 0;
  int64_t tensor_count = 0;
  int64_t value_count = 0;
  int64_t statistics_count = 0;
  int64_t document_count = 0;
  int64_t attachment_count = 0;
  // Of tensors and documents.
  int64_t size_bytes = 0;
  // Files that the run had already.
  int64_t skipped_file_count = 0;
  // Records that the capture policy of the run does not ask for.
  int64_t filtered_count = 0;
  // Records that the run had with other bytes.
  int64_t conflict_count = 0;
  // Of `tensor_count`: those that stand for a tensor of a file.
  int64_t derived_count = 0;
  // Tensors of files of which nothing is kept, and those for which
  // ImportOptions::deriver has no result.
  int64_t unkept_count = 0;
  int64_t underived_count = 0;
};

// Records that were sent, and that the run does not have as they were sent: its
// capture policy does not ask for them, or it has other bytes.
struct UnstoredCounts {
  int64_t filtered_count = 0;
  int64_t conflict_count = 0;

  friend bool operator==(const UnstoredCounts&,
                         const UnstoredCounts&) = default;
};

// What the job asks of the run that it fills.
class ImportTarget {
 public:
  virtual ~ImportTarget() = default;

  // Opens the stream of a rank. It blocks for `patience` when the daemon takes
  // nothing, drops nothing before, and asks `interrupt`.
  virtual absl::StatusOr<std::unique_ptr<libmsit::Client>> OpenRank(
      int32_t rank, libmsit::InterruptCheck interrupt) = 0;

  // Keeps `bytes` with the run, in place of what has this name there.
  // CANCELLED by an interrupt; called after it, it takes a few seconds at most.
  virtual absl::Status Attach(const std::string& name,
                              const std::string& media_type,
                              std::string_view bytes) = 0;

  // True if the user wants the import to end.
  virtual bool is_interrupted() = 0;

  // Called now and then.
  virtual void OnProgress(const ImportCounts& counts,
                          int64_t problem_count) = 0;
};

// Sends what the trees of one source have, and is not in the ledger, into a
// run, one rank after another. A file is in the ledger once the daemon has
// acknowledged all of its records: an import that ends in the middle, however
// it ends, goes on where it was when it is begun again.
//
// Thread-compatible.
class ImportJob {
 public:
  // Between two saves of the ledger, while records are sent.
  static constexpr std::chrono::milliseconds kSaveInterval{2000};

  // Streams that are kept open. Those of other ranks are opened each time.
  static constexpr size_t kKeptStreamsMax = 16;

  // Borrows `target` and `ledger`.
  ImportJob(ImportOptions options, ImportTarget& target, ImportLedger& ledger);
  ~ImportJob();

  // Sends one tree, which was opened at `root`. Files that cannot be read are
  // problems, and no error.
  //
  // Errors: CANCELLED by the user; UNAVAILABLE: the daemon took nothing for too
  // long; FAILED_PRECONDITION: it does not want the stream; INVALID_ARGUMENT:
  // `rank` is given, and the tree has several; what `target` returns. What was
  // sent before is in the ledger.
  absl::Status Import(trees::Tree& tree, const std::string& root);

  // Of all that was sent so far.
  UnstoredCounts unstored() const;

  // Brings to the run what others added to the ledger, between two imports.
  absl::Status SaveAdded();

  // Ends the streams that are kept. Then the counts are final.
  void EndStreams();

  const ImportCounts& counts() const { return counts_; }
  const ImportProblems& problems() const { return problems_; }
  // Among them are the conflicts between files of this import.
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
  // What the ledger says, and what it is told, if there is to be one.
  bool Has(const LedgerEntry& entry, std::string& problem) const;
  void Remember(const LedgerEntry& entry);
  absl::Status ImportEntry(trees::TreeEntry entry);
  absl::Status ImportFile(const trees::TreeEntry& entry);
  // False if the entry before was another tensor of the same file.
  bool IsNextFile(const trees::TreeEntry& entry);
  // Sends the tensors of the file that is open. `problem` gets why it has
  // fewer than it should.
  absl::Status SendTensors(const trees::TreeEntry& entry,
                           LedgerEntry& in_ledger, absl::Status& problem);
  // Sends one tensor, and counts its records; `problem` is set if that cannot
  // be.
  absl::Status SendTensor(const trees::TreeEntry& entry,
                          const formats::ForeignTensor& tensor,
                          LedgerEntry& in_ledger, absl::Status& problem);
  // The same for what is kept of it.
  absl::Status SendDerived(const trees::TreeEntry& entry,
                           const formats::ForeignTensor& tensor,
                           const TensorKey& key, LedgerEntry& in_ledger,
                           absl::Status& problem);
  // Asks what is kept of the tensor.
  absl::StatusOr<std::vector<DerivedTensor>> Derive(
      const formats::ForeignTensor& tensor, const TensorKey& key);
  absl::Status SendValues();
  // Sends one value; `problem` is set if that cannot be.
  absl::Status SendValue(const trees::TreeEntry& value, absl::Status& problem);
  // Sends a record to the client of its rank. `problem` is set if the record
  // is at fault.
  absl::Status Send(int32_t rank, const libmsit::TensorView& record,
                    absl::Status& problem);
  // Why the client did not take a record, or has not delivered all of them.
  absl::Status WhyDropped(const std::string& by_client);

  // The stream of a rank, while another one is sent to.
  struct Parked {
    std::unique_ptr<libmsit::Client> client;
    uint64_t given_up_count = 0;
    // Since Import began.
    bool is_used = false;
  };

  absl::Status OpenRank(int32_t rank);
  // Sets the stream aside, or takes it up again.
  void Park();
  bool Unpark(int32_t rank);
  // Waits until all that was sent to streams that are kept is acknowledged, and
  // notes it.
  absl::Status SettleKept();
  // Waits until all that was sent is acknowledged, and notes it.
  absl::Status CloseRank();
  // When it is time: shows progress, and brings to the ledger what is
  // acknowledged. CANCELLED if the user wants that.
  absl::Status SaveInTime();
  // Fails if the daemon has not kept all that was sent.
  absl::Status CheckDelivery();
  // Writes what is not written of the ledger. A daemon that is not there is an
  // error only if `must`, and only once `patience` is over.
  absl::Status SaveLedger(bool must);
  // Puts a mark behind what was sent, in the stream and in the ledger.
  void Mark();
  // After an error: notes what is acknowledged nevertheless, and `waits` for a
  // moment until it is.
  void SalvageRank(bool waits);
  void EndClient();

  void TakeProblems(trees::Tree& tree);
  std::string Below(const std::string& file) const;

  const ImportOptions options_;
  ImportTarget& target_;
  ImportLedger& ledger_;
  ImportCounts counts_;
  ImportProblems problems_;
  DoubledRecords doubled_;
  FileFeed feed_;
  std::string counted_file_;        // Of the entry before.
  uint64_t last_tensor_bytes_ = 0;  // Of the tensor that was sent last.
  std::string root_;
  ValueBlock values_;

  // Set while an interrupt is not to end what the client does.
  bool is_deaf_ = false;
  std::unique_ptr<libmsit::Client> client_;
  int32_t rank_ = -1;
  std::map<int32_t, Parked> parked_;
  // Of the client: where its mark is, and what it has given up because a file
  // failed.
  uint64_t mark_ = 0;
  uint64_t given_up_count_ = 0;
  Clock::time_point save_time_;
  Clock::time_point tick_time_;
};

}  // namespace msitd::fill
