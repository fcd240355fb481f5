// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/fair_share.h"
#include "protos/status/mutex.h"
#include "storage/face/comparisons.h"

namespace msitd::compare {

// Keeps the comparisons of a store within limits.
//
// Any reader may compare, and the rows of a comparison can take more space than
// the tensors that were compared. A fixed limit for each user would leave space
// unused, and removing any old comparison would let one user destroy the work
// of others. The following rules avoid both:
// - All comparisons share one budget, which is divided among their owners as
//   FairShare describes.
// - If an owner needs more than its share, its own oldest comparisons that have
//   ended are removed. Comparisons of other owners and tensors are never
//   removed. If removing all of them would not be sufficient, none is removed:
//   the rows are refused and the comparison fails.
// - Restoring a comparison from an archive never removes another one. The
//   restored comparison still exists in the archive, but the others may not.
// - Rows are refused before the disk is so full that tensors would have to be
//   removed to make room for them.
//
// Sizes are estimates: rows and documents as they are stored before
// compression. Comparisons that the store removes itself, because their runs
// are deleted, are counted until the next shortage.
//
// Thread-safe. The store must outlive it.
class BoundedComparisons final : public storage::Comparisons {
 public:
  struct Limits {
    uint64_t bytes_max = 0;           // For all comparisons; 0 means no limit.
    std::chrono::seconds age_max{0};  // Since creation; 0 means no limit.
    // Returns an error if the disk has no room for rows. If null, there is
    // always room.
    std::function<absl::Status()> check_room = nullptr;
  };

  // Reads all documents once to determine the space in use.
  //
  // Errors: those of the store.
  static absl::StatusOr<std::unique_ptr<BoundedComparisons>> Create(
      storage::Comparisons& store, Limits limits);

  // The functions of Comparisons. In addition to their errors, new documents
  // and rows are refused with RESOURCE_EXHAUSTED (COMPARISONS_EXHAUSTED) if
  // their owner has no room left, and with the error of Limits::check_room.
  absl::StatusOr<uint64_t> CreateComparison(
      std::string_view document, std::span<const std::string> runs) override;
  absl::StatusOr<uint64_t> CreateComparisonAs(
      uint64_t wanted, std::string_view document,
      std::span<const std::string> runs) override;
  absl::Status PutComparison(uint64_t id, std::string_view document) override;
  absl::StatusOr<std::string> GetComparison(uint64_t id) override;
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> ListComparisons(
      uint64_t after, size_t limit) override;
  absl::StatusOr<std::vector<uint64_t>> ListComparisonsOf(
      std::string_view run, uint64_t after, size_t limit) override;
  absl::Status DeleteComparison(uint64_t id) override;
  absl::Status PutComparisonRows(uint64_t id, uint64_t first_row,
                                 std::span<const std::string> rows) override;
  absl::StatusOr<std::vector<std::string>> GetComparisonRows(
      uint64_t id, uint64_t first_row, size_t limit) override;

  // Replaces the limits. Comparisons beyond them are removed by later calls.
  void SetLimits(Limits limits);

  // Removes comparisons that have ended and are older than Limits::age_max.
  //
  // Errors: those of the store. Comparisons that were not removed are removed
  // by a later call.
  absl::Status RemoveOld(int64_t now_ns);

  struct Stats {
    uint64_t bytes = 0;
    uint64_t bytes_max = 0;
    uint64_t removed_count = 0;  // For space or because of their age.
  };
  Stats Read() const;

 private:
  struct Entry {
    std::string owner;
    uint64_t document_bytes = 0;
    uint64_t row_bytes = 0;
    uint64_t row_count = 0;
    int64_t create_time_ns = 0;
    bool has_ended = false;
    bool is_restored = false;  // Reset when it has ended.

    uint64_t bytes() const { return document_bytes + row_bytes; }
  };

  BoundedComparisons(storage::Comparisons& store, Limits limits)
      : store_(store), limits_(std::move(limits)) {}

  Limits CurrentLimits() const ABSL_LOCKS_EXCLUDED(mu_);
  // Updates `entries_` from the documents in the store.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);
  // Calls Load, unless it was called a moment ago.
  absl::Status LoadAgain() ABSL_LOCKS_EXCLUDED(mu_);
  static Entry ToEntry(std::string_view document);
  absl::StatusOr<uint64_t> Add(
      std::string_view document, bool is_restored,
      const std::function<absl::StatusOr<uint64_t>()>& create);
  // A request for space.
  struct Need {
    const std::string& owner;
    uint64_t bytes = 0;
    uint64_t id = 0;  // The comparison that needs it; 0 if it is new.
    bool is_restored = false;
  };
  // Makes room by removing other comparisons of the owner, if necessary.
  // Returns an error if there is not enough room.
  absl::Status MakeRoom(const Need& need) ABSL_LOCKS_EXCLUDED(mu_);
  // True if there is enough room after removing `removed_bytes` of the owner.
  bool HasRoom(const Need& need, uint64_t removed_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the size of the comparisons that MakeRoom may remove.
  uint64_t RemovableBytes(const Need& need) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Remove(uint64_t id, std::string_view why)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::optional<uint64_t> OldestEnded(const std::string& owner,
                                      uint64_t id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Account(const std::string& owner, uint64_t before, uint64_t after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NoRoom(const std::string& owner, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  storage::Comparisons& store_;

  mutable Mutex mu_;
  Limits limits_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, uint64_t> bytes_of_ ABSL_GUARDED_BY(mu_);  // By owner.
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t removed_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::chrono::steady_clock::time_point next_load_ ABSL_GUARDED_BY(mu_){};
};

}  // namespace msitd::compare
