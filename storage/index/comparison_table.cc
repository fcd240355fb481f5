// SPDX-License-Identifier: Apache-2.0
#include "storage/index/comparison_table.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <limits>
#include <optional>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr char kDocumentTag = 'd';
constexpr char kRowTag = 'r';
constexpr size_t kDocumentKeyBytes = 9;
constexpr std::string_view kNextIdKey = "next_comparison_id";

std::string DocumentKey(uint64_t id) { return kDocumentTag + BigEndianKey(id); }

std::string RowPrefix(uint64_t id) { return kRowTag + BigEndianKey(id); }

std::string RowKey(uint64_t id, uint64_t row) {
  return RowPrefix(id) + BigEndianKey(row);
}

}  // namespace

absl::StatusOr<uint64_t> ComparisonTable::Create(std::string_view document) {
  const MutexLock lock(mu_);
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> next,
                         db_.Get(Table::kMeta, kNextIdKey));
  uint64_t id = 1;
  if (next.has_value()) {
    if (next->size() != 8) return IndexCorrupt("default");
    id = GetBigEndian(next->data(), 8);
  }
  rocksdb::WriteBatch batch;
  db_.Put(batch, Table::kComparison, DocumentKey(id), document);
  db_.Put(batch, Table::kMeta, kNextIdKey, BigEndianKey(id + 1));
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
                      "COMPARISON_NOT_FOUND");
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

absl::Status ComparisonTable::Delete(uint64_t id) {
  const MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(Get(id).status());
  rocksdb::WriteBatch batch;
  db_.Delete(batch, Table::kComparison, DocumentKey(id));
  db_.DeleteRange(batch, Table::kComparison, RowPrefix(id), RowPrefix(id + 1));
  return db_.WriteDurable(batch);
}

absl::Status ComparisonTable::PutRows(uint64_t id, uint64_t first_row,
                                      std::span<const std::string> rows) {
  const MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(Get(id).status());
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < rows.size(); ++i) {
    db_.Put(batch, Table::kComparison, RowKey(id, first_row + i), rows[i]);
  }
  return db_.WriteLogged(batch);
}

absl::StatusOr<std::vector<std::string>> ComparisonTable::GetRows(
    uint64_t id, uint64_t first_row, size_t limit) {
  MSITD_RETURN_IF_ERROR(Get(id).status());
  std::vector<std::string> out;
  const auto it = db_.Iterate(Table::kComparison, rocksdb::ReadOptions());
  const std::string prefix = RowPrefix(id);
  for (it->Seek(RowKey(id, first_row));
       out.size() < limit && it->Valid() && it->key().starts_with(prefix);
       it->Next()) {
    out.push_back(it->value().ToString());
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it->status(), "read comparison rows"));
  return out;
}

}  // namespace msitd::storage
