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
// Any reader may compare, and the rows of one comparison can take more of the
// disk than the tensors that they are about. Three rules keep that in bounds:
//
// - All comparisons together have a budget, which is divided among their owners
//   as FairShare says.
// - When an owner needs more than its share, its own oldest comparisons that
//   have ended are removed. Those of others, and tensors, never are. If
//   removing all of them is not enough, none is removed, the rows are refused
//   and the comparison fails.
// - A comparison that is restored from an archive removes no other: there is a
//   copy of it in the archive, and perhaps none of the others.
// - Rows are refused before the disk is so full that tensors would have to make
//   room for them.
//
// Sizes are what rows and documents take in the store before it compresses
// them. Comparisons that the store removes by itself, because their runs are
// gone, are noticed at the next shortage.
//
// Thread-safe. The store outlives it.
class BoundedComparisons final : public storage::Comparisons {
 public:
  struct Limits {
    uint64_t bytes_max = 0;           // In all; 0 is no limit.
    std::chrono::seconds age_max{0};  // Since the creation; 0 is no limit.
    // Returns an error if the disk has no room for rows. Null: it has.
    std::function<absl::Status()> check_room = nullptr;
  };

  // Reads all documents once.
  //
  // Errors: those of the store.
  static absl::StatusOr<std::unique_ptr<BoundedComparisons>> Create(
      storage::Comparisons& store, Limits limits);

  // Beyond the errors of Comparisons, new documents and rows are refused with
  // RESOURCE_EXHAUSTED (COMPARISONS_EXHAUSTED) if their owner has no room left,
  // and with that of Limits::check_room.
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

  // Removes comparisons that have ended and are older than the limit.
  //
  // Errors: those of the store; the next call goes on.
  absl::Status RemoveOld(int64_t now_ns);

  struct Stats {
    uint64_t bytes = 0;
    uint64_t bytes_max = 0;
    uint64_t removed_count = 0;  // To make room, or for their age.
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
    bool is_restored = false;  // Set until it has ended.

    uint64_t bytes() const { return document_bytes + row_bytes; }
  };

  BoundedComparisons(storage::Comparisons& store, Limits limits)
      : store_(store), limits_(std::move(limits)) {}

  // Makes `entries_` what the store has.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mu_);
  // The same, unless it was done a moment ago.
  absl::Status LoadAgain() ABSL_LOCKS_EXCLUDED(mu_);
  static Entry ToEntry(std::string_view document);
  absl::StatusOr<uint64_t> Add(
      std::string_view document, bool is_restored,
      const std::function<absl::StatusOr<uint64_t>()>& create);
  // Room that a comparison needs.
  struct Need {
    const std::string& owner;
    uint64_t bytes = 0;
    uint64_t id = 0;  // Of the comparison; 0 for a new one.
    bool is_restored = false;
  };
  // Makes room by removing other comparisons of the owner.
  absl::Status MakeRoom(const Need& need) ABSL_LOCKS_EXCLUDED(mu_);
  // True if there is enough room once `removed_bytes` of the owner are gone.
  bool HasRoom(const Need& need, uint64_t removed_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Size of the comparisons that MakeRoom may remove.
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
  const Limits limits_;

  mutable Mutex mu_;
  std::map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, uint64_t> bytes_of_ ABSL_GUARDED_BY(mu_);  // By owner.
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t removed_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::chrono::steady_clock::time_point next_load_ ABSL_GUARDED_BY(mu_){};
};

}  // namespace msitd::compare
