// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/bounded_comparisons.h"

#include <algorithm>

#include "daemon/compare/job/comparison_job.h"
#include "daemon/compare/job/comparison_name.h"
#include "daemon/log/log.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/shared_prefix.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr size_t kPageSize = 256;

// Minimum time between two searches for comparisons that the store itself has
// removed.
constexpr std::chrono::seconds kLoadInterval{10};

// Size of a comparison in the store, in addition to its document and its rows.
constexpr uint64_t kComparisonBytes = 512;

// Estimated size of a row, for comparisons that were stored without their size.
constexpr uint64_t kUnknownRowBytes = 128;

// Estimates the size of rows in the store, which omits the prefix that a row
// shares with the previous row, and other equal bytes. Rows take up to four
// times less.
uint64_t StoredBytes(std::span<const std::string> rows) {
  uint64_t bytes = 0;
  std::string_view before;
  for (const std::string_view row : rows) {
    bytes += row.size() - SharedPrefixBytes(before, row) + 2;
    before = row;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BoundedComparisons>> BoundedComparisons::Create(
    storage::Comparisons& store, Limits limits) {
  std::unique_ptr<BoundedComparisons> out(
      new BoundedComparisons(store, std::move(limits)));
  MSITD_RETURN_IF_ERROR(out->Load());
  return out;
}

BoundedComparisons::Entry BoundedComparisons::ToEntry(
    std::string_view document) {
  Entry entry;
  entry.document_bytes = document.size() + kComparisonBytes;
  v1::Comparison comparison;
  // A damaged document has no known owner. It still takes space, so it is
  // counted.
  if (!comparison.ParseFromArray(document.data(),
                                 static_cast<int>(document.size()))) {
    return entry;
  }
  entry.owner = comparison.owner();
  entry.row_count = static_cast<uint64_t>(RowCount(comparison));
  const auto stored = static_cast<uint64_t>(comparison.stored_size_bytes());
  entry.row_bytes = stored > entry.document_bytes
                        ? stored - entry.document_bytes
                        : entry.row_count * kUnknownRowBytes;
  constexpr int64_t kNsPerS = 1'000'000'000;
  entry.create_time_ns = comparison.create_time().seconds() * kNsPerS +
                         comparison.create_time().nanos();
  entry.has_ended = HasEnded(comparison);
  return entry;
}

absl::Status BoundedComparisons::Load() {
  std::map<uint64_t, Entry> found;
  uint64_t after = 0;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const auto documents,
                           store_.ListComparisons(after, kPageSize));
    if (documents.empty()) break;
    for (const auto& [id, document] : documents) {
      found[id] = ToEntry(document);
      after = id;
    }
  }
  MutexLock lock(mu_);
  std::vector<uint64_t> gone;
  for (const auto& [id, entry] : entries_) {
    if (!found.contains(id) && id <= after) gone.push_back(id);
  }
  for (const uint64_t id : gone) Forget(id);
  for (auto& [id, entry] : found) {
    // An existing entry is newer than the document.
    if (entries_.contains(id)) continue;
    Account(entry.owner, 0, entry.bytes());
    entries_[id] = std::move(entry);
  }
  return absl::OkStatus();
}

absl::Status BoundedComparisons::LoadAgain() {
  const auto now = std::chrono::steady_clock::now();
  {
    MutexLock lock(mu_);
    if (now < next_load_) return absl::OkStatus();
    next_load_ = now + kLoadInterval;
  }
  return Load();
}

void BoundedComparisons::Account(const std::string& owner, uint64_t before,
                                 uint64_t after) {
  bytes_ += after - before;
  uint64_t& own = bytes_of_[owner];
  own += after - before;
  if (own == 0) bytes_of_.erase(owner);
}

void BoundedComparisons::Forget(uint64_t id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  Account(it->second.owner, it->second.bytes(), 0);
  entries_.erase(it);
}

std::optional<uint64_t> BoundedComparisons::OldestEnded(
    const std::string& owner, uint64_t id) const {
  for (const auto& [other, entry] : entries_) {
    if (other != id && entry.has_ended && entry.owner == owner) return other;
  }
  return std::nullopt;
}

absl::Status BoundedComparisons::NoRoom(const std::string& owner,
                                        uint64_t bytes) const {
  const auto own = bytes_of_.find(owner);
  return WithReason(
      MakeStatus(
          absl::StatusCode::kResourceExhausted,
          "there is no room for {} more bytes of comparisons: {} of {} "
          "bytes are in use, {} of them by {} (retain_comparison_bytes); "
          "delete comparisons that are no longer needed",
          bytes, bytes_, limits_.bytes_max,
          own == bytes_of_.end() ? 0 : own->second,
          owner.empty() ? "this caller" : owner),
      ErrorReason::kComparisonsExhausted);
}

absl::Status BoundedComparisons::Remove(uint64_t id, std::string_view why) {
  const absl::Status status = store_.DeleteComparison(id);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  log::Get("compare")->info("removed comparison={} because={}",
                            FormatComparisonName(id), why);
  MutexLock lock(mu_);
  Forget(id);
  ++removed_count_;
  return absl::OkStatus();
}

bool BoundedComparisons::HasRoom(const Need& need,
                                 uint64_t removed_bytes) const {
  const FairShare share{limits_.bytes_max};
  const auto own = bytes_of_.find(need.owner);
  const uint64_t held = own == bytes_of_.end() ? 0 : own->second;
  return share.Admits(/*is_admin=*/false, held - removed_bytes,
                      bytes_ - removed_bytes, need.bytes);
}

uint64_t BoundedComparisons::RemovableBytes(const Need& need) const {
  uint64_t bytes = 0;
  if (need.is_restored) return bytes;
  for (const auto& [other, entry] : entries_) {
    if (other != need.id && entry.has_ended && entry.owner == need.owner) {
      bytes += entry.bytes();
    }
  }
  return bytes;
}

absl::Status BoundedComparisons::MakeRoom(const Need& need) {
  const Limits limits = CurrentLimits();
  if (limits.check_room) MSITD_RETURN_IF_ERROR(limits.check_room());
  if (limits.bytes_max == 0) return absl::OkStatus();
  bool is_fresh = false;
  while (true) {
    std::optional<uint64_t> oldest;
    {
      MutexLock lock(mu_);
      if (HasRoom(need, 0)) return absl::OkStatus();
      if (is_fresh) {
        if (!HasRoom(need, RemovableBytes(need))) {
          return NoRoom(need.owner, need.bytes);
        }
        oldest = OldestEnded(need.owner, need.id);
        if (!oldest.has_value()) return NoRoom(need.owner, need.bytes);
      }
    }
    // The store may have removed comparisons itself, so load them again first.
    if (!is_fresh) {
      MSITD_RETURN_IF_ERROR(LoadAgain());
      is_fresh = true;
      continue;
    }
    MSITD_RETURN_IF_ERROR(Remove(*oldest, "its owner needs the room"));
  }
}

absl::StatusOr<uint64_t> BoundedComparisons::Add(
    std::string_view document, bool is_restored,
    const std::function<absl::StatusOr<uint64_t>()>& create) {
  Entry entry = ToEntry(document);
  entry.row_bytes = 0;
  entry.row_count = 0;
  entry.is_restored = is_restored && !entry.has_ended;
  MSITD_RETURN_IF_ERROR(MakeRoom({.owner = entry.owner,
                                  .bytes = entry.bytes(),
                                  .is_restored = is_restored}));
  MSITD_ASSIGN_OR_RETURN(const uint64_t id, create());
  MutexLock lock(mu_);
  Account(entry.owner, 0, entry.bytes());
  entries_[id] = std::move(entry);
  return id;
}

absl::StatusOr<uint64_t> BoundedComparisons::CreateComparison(
    std::string_view document, std::span<const std::string> runs) {
  return Add(document, /*is_restored=*/false,
             [&] { return store_.CreateComparison(document, runs); });
}

absl::StatusOr<uint64_t> BoundedComparisons::CreateComparisonAs(
    uint64_t wanted, std::string_view document,
    std::span<const std::string> runs) {
  return Add(document, /*is_restored=*/true,
             [&] { return store_.CreateComparisonAs(wanted, document, runs); });
}

absl::Status BoundedComparisons::PutComparison(uint64_t id,
                                               std::string_view document) {
  v1::Comparison comparison;
  if (!comparison.ParseFromArray(document.data(),
                                 static_cast<int>(document.size()))) {
    return store_.PutComparison(id, document);
  }
  const uint64_t document_bytes = document.size() + kComparisonBytes;
  {
    MutexLock lock(mu_);
    const auto it = entries_.find(id);
    if (it != entries_.end()) {
      Entry& entry = it->second;
      // Never refused, because the end of a comparison must be stored.
      Account(entry.owner, entry.document_bytes, document_bytes);
      entry.document_bytes = document_bytes;
      entry.has_ended = HasEnded(comparison);
      if (entry.has_ended) entry.is_restored = false;
      comparison.set_stored_size_bytes(static_cast<int64_t>(entry.bytes()));
    }
  }
  return store_.PutComparison(id, comparison.SerializeAsString());
}

absl::Status BoundedComparisons::PutComparisonRows(
    uint64_t id, uint64_t first_row, std::span<const std::string> rows) {
  std::string owner;
  uint64_t row_count = 0;
  bool is_restored = false;
  {
    MutexLock lock(mu_);
    const auto it = entries_.find(id);
    if (it == entries_.end()) {
      return store_.PutComparisonRows(id, first_row, rows);
    }
    owner = it->second.owner;
    row_count = it->second.row_count;
    is_restored = it->second.is_restored;
  }
  const uint64_t after = StoredBytes(rows);
  uint64_t before = 0;
  if (first_row < row_count) {
    MSITD_ASSIGN_OR_RETURN(
        const std::vector<std::string> replaced,
        store_.GetComparisonRows(id, first_row, rows.size()));
    before = StoredBytes(replaced);
  }
  const uint64_t more = after - std::min(after, before);
  MSITD_RETURN_IF_ERROR(MakeRoom({owner, more, id, is_restored}));
  MSITD_RETURN_IF_ERROR(store_.PutComparisonRows(id, first_row, rows));
  MutexLock lock(mu_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return absl::OkStatus();
  Account(owner, 0, more);
  it->second.row_bytes += more;
  it->second.row_count = std::max(row_count, first_row + rows.size());
  return absl::OkStatus();
}

absl::Status BoundedComparisons::DeleteComparison(uint64_t id) {
  const absl::Status status = store_.DeleteComparison(id);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  MutexLock lock(mu_);
  Forget(id);
  return status;
}

absl::StatusOr<std::string> BoundedComparisons::GetComparison(uint64_t id) {
  return store_.GetComparison(id);
}

absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>>
BoundedComparisons::ListComparisons(uint64_t after, size_t limit) {
  return store_.ListComparisons(after, limit);
}

absl::StatusOr<std::vector<uint64_t>> BoundedComparisons::ListComparisonsOf(
    std::string_view run, uint64_t after, size_t limit) {
  return store_.ListComparisonsOf(run, after, limit);
}

absl::StatusOr<std::vector<std::string>> BoundedComparisons::GetComparisonRows(
    uint64_t id, uint64_t first_row, size_t limit) {
  return store_.GetComparisonRows(id, first_row, limit);
}

absl::Status BoundedComparisons::RemoveOld(int64_t now_ns) {
  const Limits limits = CurrentLimits();
  if (limits.age_max.count() == 0) return absl::OkStatus();
  const int64_t age_max_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(limits.age_max)
          .count();
  std::vector<uint64_t> old;
  {
    MutexLock lock(mu_);
    for (const auto& [id, entry] : entries_) {
      if (entry.has_ended && now_ns - entry.create_time_ns > age_max_ns) {
        old.push_back(id);
      }
    }
  }
  for (const uint64_t id : old) {
    MSITD_RETURN_IF_ERROR(Remove(id, "it is older than the limit"));
  }
  return absl::OkStatus();
}

void BoundedComparisons::SetLimits(Limits limits) {
  MutexLock lock(mu_);
  limits_ = std::move(limits);
}

BoundedComparisons::Limits BoundedComparisons::CurrentLimits() const {
  MutexLock lock(mu_);
  return limits_;
}

BoundedComparisons::Stats BoundedComparisons::Read() const {
  MutexLock lock(mu_);
  return {bytes_, limits_.bytes_max, removed_count_};
}

}  // namespace msitd::compare
