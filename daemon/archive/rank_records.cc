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
  if (item_ >= item_count_) {
    if (rests_) MSITD_RETURN_IF_ERROR(Return(stop));
    MSITD_ASSIGN_OR_RETURN(const bool has_token, ReadToken(stop));
    if (!has_token) return false;
  } else if (rests_) {
    MSITD_RETURN_IF_ERROR(Return(stop));
  }
  place_ = items_[item_].place;
  return true;
}

Selector RankRecords::AllOfRank() const {
  Selector selector;
  selector.ranks = {rank_};
  selector.kinds = EveryRecordKind();
  return selector;
}

absl::StatusOr<bool> RankRecords::ReadToken(storage::StopCheck stop) {
  if (scan_ == nullptr) {
    MSITD_ASSIGN_OR_RETURN(scan_, run_.Scan(AllOfRank(), scan_position_));
  }
  batch_.reset();
  ahead_items_.clear();
  entries_.clear();
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
  if (!entries_.empty()) {
    device_ = entries_[0].key.device;
    token_ = entries_[0].key.token;
  }
  SortItems();
  item_count_ = items_.size();
  return !items_.empty();
}

void RankRecords::SortItems() {
  items_.clear();
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
}

void RankRecords::Rest() {
  if (rests_) return;
  rests_ = true;
  if (scan_ != nullptr) {
    scan_position_ = scan_->position();
    lost_count_ += scan_->incomplete_count();
  }
  scan_.reset();
  batch_.reset();
  buffer_ = {};
  ahead_ = {};
  ahead_items_ = {};
  entries_ = {};
  items_ = {};
}

uint64_t RankRecords::lost_count() const {
  return lost_count_ + (scan_ != nullptr ? scan_->incomplete_count() : 0);
}

absl::Status RankRecords::Return(storage::StopCheck stop) {
  rests_ = false;
  Selector selector = AllOfRank();
  selector.devices = {device_};
  selector.tokens = {{token_, token_}};
  MSITD_ASSIGN_OR_RETURN(const auto scan, run_.Scan(std::move(selector), ""));
  storage::TensorInfo entry;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(entry, stop));
    if (!found) break;
    entries_.push_back(entry);
  }
  SortItems();
  if (items_.size() == item_count_) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "rank {} had {} records at token {}, and has {} now", rank_,
                    item_count_, token_, items_.size());
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

absl::Status RankRecords::Read(PartRecord& out, storage::StopCheck stop) {
  if (rests_) MSITD_RETURN_IF_ERROR(Return(stop));
  const Item& item = items_[item_];
  out = {};
  out.entry = &entries_[item.entry];
  out.part = item.part;
  if (!HasBytes(item)) return absl::OkStatus();
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
  return absl::OkStatus();
}

}  // namespace msitd::archive
