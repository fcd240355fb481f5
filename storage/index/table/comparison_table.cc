// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/comparison_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/face/comparisons.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/index_value.h"
#include "storage/index/db/row_block.h"

namespace msitd::storage {
namespace {

constexpr char kDocumentTag = 'd';
constexpr char kBlockTag = 'b';
// Rows in the old form, with an entry for each.
constexpr char kRowTag = 'r';
// The comparisons of a run, and the runs of a comparison.
constexpr char kOfRunTag = 'u';
constexpr char kRunsTag = 't';
// Removed comparisons whose space was not reclaimed yet.
constexpr char kFreedTag = 'f';
constexpr size_t kDocumentKeyBytes = 9;
constexpr size_t kFreedKeyBytes = 9;
// Maximum number of removed comparisons whose space is reclaimed in one step.
constexpr size_t kFreedAtATime = 4096;
constexpr size_t kOfRunKeyBytes = 17;
constexpr size_t kRunIdBytes = 8;
constexpr std::string_view kNextComparisonKey = "next_comparison_id";

std::string DocumentKey(uint64_t id) { return kDocumentTag + BigEndianKey(id); }

std::string FreedKey(uint64_t id) { return kFreedTag + BigEndianKey(id); }

std::string RunsKey(uint64_t id) { return kRunsTag + BigEndianKey(id); }

std::string BlockPrefix(uint64_t id) { return kBlockTag + BigEndianKey(id); }

}  // namespace

absl::StatusOr<uint64_t> ComparisonTable::Create(std::string_view document,
                                                 std::span<const RunId> runs,
                                                 uint64_t wanted) {
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> next,
                         db_.Get(Table::kMeta, kNextComparisonKey));
  uint64_t id = 1;
  if (next.has_value()) {
    if (next->size() != 8) return IndexCorrupt("default");
    id = GetBigEndian(next->data(), 8);
  }
  if (wanted > id && wanted - id <= Comparisons::kNumbersSkippedMax) {
    id = wanted;
  }
  rocksdb::WriteBatch batch;
  db_.Put(batch, Table::kComparison, DocumentKey(id), document);
  db_.Put(batch, Table::kMeta, kNextComparisonKey, BigEndianKey(id + 1));
  std::string run_ids;
  for (const RunId run : runs) {
    const auto number = static_cast<uint64_t>(run);
    run_ids += BigEndianKey(number);
    db_.Put(batch, Table::kComparison,
            RunPrefix(kOfRunTag, number) + BigEndianKey(id), "");
  }
  if (!runs.empty()) db_.Put(batch, Table::kComparison, RunsKey(id), run_ids);
  MSITD_RETURN_IF_ERROR(db_.WriteDurable(batch));
  return id;
}

absl::Status ComparisonTable::Put(uint64_t id, std::string_view document) {
  const MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(Get(id).status());
  rocksdb::WriteBatch batch;
  db_.Put(batch, Table::kComparison, DocumentKey(id), document);
  return db_.WriteDurable(batch);
}

absl::StatusOr<std::string> ComparisonTable::Get(uint64_t id) {
  MSITD_ASSIGN_OR_RETURN(std::optional<std::string> document,
                         db_.Get(Table::kComparison, DocumentKey(id)));
  if (!document.has_value()) {
    return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                                 "there is no comparison {}", id),
                      ErrorReason::kComparisonNotFound);
  }
  return *std::move(document);
}

absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>>
ComparisonTable::List(uint64_t after, size_t limit) {
  std::vector<std::pair<uint64_t, std::string>> out;
  if (after == std::numeric_limits<uint64_t>::max()) return out;
  const auto it = db_.Iterate(Table::kComparison, rocksdb::ReadOptions());
  const std::string prefix(1, kDocumentTag);
  for (it->Seek(DocumentKey(after + 1));
       out.size() < limit && it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    if (it->key().size() != kDocumentKeyBytes) {
      return IndexCorrupt("comparison");
    }
    out.emplace_back(GetBigEndian(it->key().data() + 1, 8),
                     it->value().ToString());
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read comparisons"));
  return out;
}

absl::StatusOr<std::vector<uint64_t>> ComparisonTable::ListOf(RunId run,
                                                              uint64_t after,
                                                              size_t limit) {
  std::vector<uint64_t> out;
  if (after == std::numeric_limits<uint64_t>::max()) return out;
  const std::string prefix = RunPrefix(kOfRunTag, static_cast<uint64_t>(run));
  const auto it = db_.Iterate(Table::kComparison, rocksdb::ReadOptions());
  for (it->Seek(prefix + BigEndianKey(after + 1));
       out.size() < limit && it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    if (it->key().size() != kOfRunKeyBytes) return IndexCorrupt("comparison");
    out.push_back(GetBigEndian(it->key().data() + prefix.size(), 8));
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read comparisons"));
  return out;
}

absl::Status ComparisonTable::Delete(uint64_t id) {
  const MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(Get(id).status());
  rocksdb::WriteBatch batch;
  MSITD_RETURN_IF_ERROR(AppendRemovalTo(batch, id));
  return db_.WriteDurable(batch);
}

absl::Status ComparisonTable::AppendRemovalTo(rocksdb::WriteBatch& batch,
                                              uint64_t id) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> runs,
                         db_.Get(Table::kComparison, RunsKey(id)));
  if (runs.has_value()) {
    if (runs->size() % kRunIdBytes != 0) return IndexCorrupt("comparison");
    for (size_t i = 0; i < runs->size(); i += kRunIdBytes) {
      db_.Delete(
          batch, Table::kComparison,
          RunPrefix(kOfRunTag, GetBigEndian(runs->data() + i, kRunIdBytes)) +
              BigEndianKey(id));
    }
    db_.Delete(batch, Table::kComparison, RunsKey(id));
  }
  db_.Delete(batch, Table::kComparison, DocumentKey(id));
  db_.Put(batch, Table::kComparison, FreedKey(id), "");
  for (const char tag : {kBlockTag, kRowTag}) {
    db_.DeleteRange(batch, Table::kComparison, tag + BigEndianKey(id),
                    tag + BigEndianKey(id + 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint64_t>> ComparisonTable::FirstOf(RunId run) {
  const std::string prefix = RunPrefix(kOfRunTag, static_cast<uint64_t>(run));
  const auto it = db_.Iterate(Table::kComparison, rocksdb::ReadOptions());
  it->Seek(prefix);
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read comparisons"));
  if (!it->Valid() || !it->key().starts_with(prefix)) {
    return std::optional<uint64_t>();
  }
  if (it->key().size() != kOfRunKeyBytes) return IndexCorrupt("comparison");
  return std::optional<uint64_t>(
      GetBigEndian(it->key().data() + prefix.size(), 8));
}

absl::Status ComparisonTable::Leave(RunId run, uint64_t id) {
  const auto number = static_cast<uint64_t>(run);
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> runs,
                         db_.Get(Table::kComparison, RunsKey(id)));
  std::string others;
  for (size_t i = 0; runs.has_value() && i + kRunIdBytes <= runs->size();
       i += kRunIdBytes) {
    if (GetBigEndian(runs->data() + i, kRunIdBytes) == number) continue;
    others.append(*runs, i, kRunIdBytes);
  }
  rocksdb::WriteBatch batch;
  db_.Delete(batch, Table::kComparison,
             RunPrefix(kOfRunTag, number) + BigEndianKey(id));
  if (others.empty()) {
    MSITD_RETURN_IF_ERROR(AppendRemovalTo(batch, id));
  } else {
    db_.Put(batch, Table::kComparison, RunsKey(id), others);
  }
  return db_.WriteDurable(batch);
}

absl::StatusOr<std::vector<uint64_t>> ComparisonTable::FreedTogether() {
  std::vector<uint64_t> freed;
  const std::string prefix(1, kFreedTag);
  const auto it = db_.Iterate(Table::kComparison, rocksdb::ReadOptions());
  for (it->Seek(prefix); freed.size() < kFreedAtATime && it->Valid() &&
                         it->key().starts_with(prefix);
       it->Next()) {
    if (it->key().size() != kFreedKeyBytes) return IndexCorrupt("comparison");
    freed.push_back(GetBigEndian(it->key().data() + 1, 8));
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read comparisons"));
  if (freed.empty()) return freed;
  // A single range of keys is one operation; it extends to the next existing
  // comparison.
  MSITD_ASSIGN_OR_RETURN(const auto next, List(freed.front(), 1));
  if (!next.empty()) {
    std::erase_if(freed, [&](uint64_t id) { return id > next[0].first; });
  }
  return freed;
}

absl::StatusOr<bool> ComparisonTable::GiveRoomBack() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<uint64_t> freed, FreedTogether());
  if (freed.empty()) return true;
  for (const char tag : {kBlockTag, kDocumentTag}) {
    MSITD_RETURN_IF_ERROR(
        db_.GiveRoomBack(Table::kComparison, tag + BigEndianKey(freed.front()),
                         tag + BigEndianKey(freed.back() + 1)));
  }
  rocksdb::WriteBatch batch;
  for (const uint64_t id : freed) {
    db_.Delete(batch, Table::kComparison, FreedKey(id));
  }
  MSITD_RETURN_IF_ERROR(db_.WriteLogged(batch));
  return false;
}

std::string ComparisonTable::BlockKey(uint64_t id, uint64_t block) {
  return BlockPrefix(id) + BigEndianKey(block);
}

absl::StatusOr<std::vector<std::string>> ComparisonTable::GetBlock(
    uint64_t id, uint64_t block) {
  std::vector<std::string> rows;
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> bytes,
                         db_.Get(Table::kComparison, BlockKey(id, block)));
  if (bytes.has_value() && !DecodeRows(*bytes, rows)) {
    return IndexCorrupt("comparison");
  }
  return rows;
}

absl::Status ComparisonTable::CheckBlocks(uint64_t id) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> row,
                         db_.Get(Table::kComparison,
                                 kRowTag + BigEndianKey(id) + BigEndianKey(0)));
  if (!row.has_value()) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    "the rows of comparison {} are of an earlier version of "
                    "msitd: compare once more",
                    id);
}

absl::Status ComparisonTable::CheckFollows(uint64_t id, uint64_t row) {
  if (row == 0) return absl::OkStatus();
  const uint64_t before = row - 1;
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> rows,
                         GetBlock(id, before / kRowsMax));
  if (before % kRowsMax < rows.size()) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(CheckBlocks(id));
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    "comparison {} has no row {} yet", id, before);
}

absl::Status ComparisonTable::PutRows(uint64_t id, uint64_t first_row,
                                      std::span<const std::string> rows) {
  const MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(Get(id).status());
  MSITD_RETURN_IF_ERROR(CheckFollows(id, first_row));
  rocksdb::WriteBatch batch;
  while (!rows.empty()) {
    const uint64_t block = first_row / kRowsMax;
    const uint64_t begin = first_row % kRowsMax;
    const uint64_t count = std::min<uint64_t>(rows.size(), kRowsMax - begin);
    std::span<const std::string> in_block = rows.first(count);
    std::vector<std::string> merged;
    if (count < kRowsMax) {
      MSITD_ASSIGN_OR_RETURN(merged, GetBlock(id, block));
      merged.resize(std::max<size_t>(merged.size(), begin + count));
      std::copy(in_block.begin(), in_block.end(),
                merged.begin() + static_cast<ptrdiff_t>(begin));
      in_block = merged;
    }
    db_.Put(batch, Table::kComparison, BlockKey(id, block),
            EncodeRows(in_block));
    rows = rows.subspan(count);
    first_row += count;
  }
  return db_.WriteLogged(batch);
}

absl::StatusOr<std::vector<std::string>> ComparisonTable::GetRows(
    uint64_t id, uint64_t first_row, size_t limit) {
  MSITD_RETURN_IF_ERROR(Get(id).status());
  std::vector<std::string> out;
  std::vector<std::string> in_block;
  size_t skipped = first_row % kRowsMax;
  const auto it = db_.Iterate(Table::kComparison, rocksdb::ReadOptions());
  const std::string prefix = BlockPrefix(id);
  for (it->Seek(BlockKey(id, first_row / kRowsMax));
       out.size() < limit && it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    if (!DecodeRows(it->value().ToStringView(), in_block)) {
      return IndexCorrupt("comparison");
    }
    for (size_t i = skipped; i < in_block.size() && out.size() < limit; ++i) {
      out.push_back(std::move(in_block[i]));
    }
    skipped = 0;
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read comparison rows"));
  if (out.empty()) MSITD_RETURN_IF_ERROR(CheckBlocks(id));
  return out;
}

}  // namespace msitd::storage
