// SPDX-License-Identifier: Apache-2.0
#include "storage/store_figures.h"

#include <algorithm>
#include <utility>

namespace msitd::storage {

void StoreFigures::CountAppend(size_t chunk_count, const IndexOutcome& outcome,
                               SegmentId segment, uint64_t bytes) {
  const MutexLock lock(mu_);
  stats_.committed_chunk_count += chunk_count;
  stats_.committed_record_count += outcome.record_count;
  stats_.committed_bytes += outcome.payload_bytes;
  stats_.duplicate_count += outcome.duplicate_count;
  stats_.conflict_count += outcome.conflict_count;
  stats_.checked_digest_count += outcome.checked_digest_count;
  stats_.false_digest_count += outcome.false_digest_count;
  segment_sizes_[ToNumber(segment)] = bytes;
}

void StoreFigures::CountReplay(const LogReplay::Counts& counts) {
  const MutexLock lock(mu_);
  stats_.recovered_frame_count += counts.recovered;
  stats_.torn_frame_count += counts.torn;
  stats_.corrupt_frame_count += counts.corrupt;
}

void StoreFigures::CountExpired(uint64_t bytes) {
  const MutexLock lock(mu_);
  stats_.expired_bytes += bytes;
}

void StoreFigures::CountShared(uint64_t bytes, uint64_t unequal_count) {
  const MutexLock lock(mu_);
  stats_.shared_bytes += bytes;
  stats_.unequal_count += unequal_count;
}

void StoreFigures::SetRetention(uint64_t excess_bytes, bool is_making_room) {
  const MutexLock lock(mu_);
  stats_.excess_bytes = excess_bytes;
  stats_.is_making_room = is_making_room;
}

void StoreFigures::SetRetentionPause(std::string reason) {
  const MutexLock lock(mu_);
  stats_.retention_pause = std::move(reason);
}

void StoreFigures::SetVerify(const VerifyStats& verify) {
  const MutexLock lock(mu_);
  stats_.verify = verify;
}

void StoreFigures::SetMissing(MissingSegments missing) {
  const MutexLock lock(mu_);
  stats_.missing = std::move(missing);
}

bool StoreFigures::SetRefusal(const std::string& refusal) {
  const MutexLock lock(mu_);
  if (refusal == stats_.refusal) return false;
  stats_.refusal = refusal;
  return true;
}

std::string StoreFigures::Refusal() const {
  const MutexLock lock(mu_);
  return stats_.refusal;
}

void StoreFigures::SetSegmentBytes(SegmentId segment, uint64_t bytes) {
  const MutexLock lock(mu_);
  segment_sizes_[ToNumber(segment)] = bytes;
}

void StoreFigures::RemoveSegment(SegmentId segment) {
  const MutexLock lock(mu_);
  segment_sizes_.erase(ToNumber(segment));
}

std::vector<uint64_t> StoreFigures::Segments() const {
  const MutexLock lock(mu_);
  std::vector<uint64_t> numbers;
  numbers.reserve(segment_sizes_.size());
  for (const auto& [number, bytes] : segment_sizes_) numbers.push_back(number);
  return numbers;
}

uint64_t StoreFigures::SegmentBytes() const {
  return SegmentBytesFrom(0, 0, UINT64_MAX);
}

uint64_t StoreFigures::SegmentBytesFrom(uint64_t first, uint64_t first_offset,
                                        uint64_t end) const {
  const MutexLock lock(mu_);
  uint64_t sum = 0;
  for (auto it = segment_sizes_.lower_bound(first);
       it != segment_sizes_.end() && it->first < end; ++it) {
    const uint64_t skipped = it->first == first ? first_offset : 0;
    sum += it->second - std::min(it->second, skipped);
  }
  return sum;
}

StoreStats StoreFigures::Read() const {
  const MutexLock lock(mu_);
  StoreStats stats = stats_;
  stats.segment_count = segment_sizes_.size();
  for (const auto& [number, bytes] : segment_sizes_) {
    stats.segment_bytes += bytes;
  }
  return stats;
}

}  // namespace msitd::storage
