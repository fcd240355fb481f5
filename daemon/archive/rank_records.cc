// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/rank_records.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "protos/status/status.h"

namespace msitd::archive {

absl::StatusOr<bool> RankRecords::Next(storage::StopCheck stop) {
  if (is_begun_) ++item_;
  is_begun_ = true;
  if (item_ < items_.size()) return true;
  return ReadToken(stop);
}

absl::StatusOr<bool> RankRecords::ReadToken(storage::StopCheck stop) {
  if (scan_ == nullptr) {
    Selector selector;
    selector.ranks = {rank_};
    for (int kind = 0; kind < kRecordKindCount; ++kind) {
      selector.kinds.push_back(static_cast<RecordKind>(kind));
    }
    MSITD_ASSIGN_OR_RETURN(scan_, run_.Scan(std::move(selector), ""));
  }
  batch_.reset();
  ahead_items_.clear();
  entries_.clear();
  items_.clear();
  item_ = 0;
  if (pending_.has_value()) entries_.push_back(*std::move(pending_));
  pending_.reset();
  while (true) {
    storage::TensorInfo entry;
    MSITD_ASSIGN_OR_RETURN(const bool found, scan_->Next(entry, stop));
    if (!found) break;
    if (!entries_.empty() && (entries_[0].key.token != entry.key.token ||
                              entries_[0].key.device != entry.key.device)) {
      pending_ = std::move(entry);
      break;
    }
    entries_.push_back(std::move(entry));
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const storage::TensorInfo& entry = entries_[i];
    for (size_t part = 0; part < entry.parts.size(); ++part) {
      items_.push_back({entry.parts[part].place, entry.alias_of.has_value(),
                        entry.sequence, i, part});
    }
  }
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return std::tie(a.place, a.is_alias, a.sequence, a.entry, a.part) <
           std::tie(b.place, b.is_alias, b.sequence, b.entry, b.part);
  });
  return !items_.empty();
}

bool RankRecords::HasBytes(const Item& item) const {
  const storage::TensorInfo& entry = entries_[item.entry];
  return entry.has_bytes && !item.is_alias && entry.parts[item.part].has_bytes;
}

void RankRecords::ReadAhead() {
  batch_.reset();
  ahead_.clear();
  ahead_items_.clear();
  uint64_t bytes = 0;
  for (size_t i = item_; i < items_.size(); ++i) {
    if (!HasBytes(items_[i])) continue;
    const storage::PartInfo& part =
        entries_[items_[i].entry].parts[items_[i].part];
    bytes += part.bytes;
    if (!ahead_.empty() && bytes > kWindowBytes) break;
    ahead_.push_back(part);
    ahead_items_.push_back(i);
  }
  batch_ = run_.ReadParts(ahead_, buffer_);
}

absl::StatusOr<PartRecord> RankRecords::Read() {
  const Item& item = items_[item_];
  PartRecord out;
  out.entry = &entries_[item.entry];
  out.part = item.part;
  if (!HasBytes(item)) return out;
  const auto find = [&]() -> std::optional<size_t> {
    if (batch_ == nullptr) return std::nullopt;
    const auto it =
        std::lower_bound(ahead_items_.begin(), ahead_items_.end(), item_);
    const auto at = static_cast<size_t>(it - ahead_items_.begin());
    if (at >= batch_->size() || *it != item_) return std::nullopt;
    return at;
  };
  std::optional<size_t> at = find();
  if (!at.has_value()) {
    ReadAhead();
    at = find();
  }
  MSITD_ASSIGN_OR_RETURN(out.bytes, batch_->Read(*at));
  return out;
}

}  // namespace msitd::archive
