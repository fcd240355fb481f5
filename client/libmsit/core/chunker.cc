// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/chunker.h"

#include <algorithm>

#include "protos/base/check.h"

namespace msitd::libmsit {

std::optional<Chunker::PartPlace> Chunker::Reserve(
    const chunk::RecordSpec& part, KeptLevel kept) {
  Slot*& open = open_[static_cast<size_t>(kept.level)];
  if (open != nullptr && !MayJoin(*open, part, kept)) Seal(open);
  if (open != nullptr) {
    if (const auto place = AddTo(*open, part, kept)) return place;
    Seal(open);
  }
  Slot* slot = pool_.Acquire();
  if (slot == nullptr) {
    // No slot is free, and no chunk is waiting for the daemon that would free
    // one: all slots hold open chunks. Seal them, so that they are sent and
    // their slots become free.
    if (queue_.empty()) Seal();
    return std::nullopt;
  }
  slot->builder.Start(identity_.run, identity_.rank, identity_.stream_id, 0);
  if (kept.level == capture::Level::kSummary) slot->builder.KeepSummariesOnly();
  if (kept.level == capture::Level::kSample) slot->builder.KeepSamples();
  slot->token = part.token;
  slot->is_token_fixed = kept.is_token_fixed;
  slot->start_time = std::chrono::steady_clock::now();
  slot->start_time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  slot->builder.StartDraft(++begun_count_, slot->start_time_ns);
  const std::optional<PartPlace> place = AddTo(*slot, part, kept);
  MSITD_CHECK(place.has_value());
  open = slot;
  return place;
}

void Chunker::SetTokenBase(int64_t base) {
  token_base_ = base;
  for (Slot* const open : open_) {
    if (open != nullptr) open->ShiftTokens(base);
  }
  queue_.ShiftTokens(base);
}

bool Chunker::MayJoin(const Slot& open, const chunk::RecordSpec& part,
                      KeptLevel kept) const {
  // Sequences must not decrease within a chunk, but threads that record large
  // tensors may overtake each other between parts.
  return part.sequence >= open.last_sequence &&
         open.is_token_fixed == kept.is_token_fixed &&
         (!parts_tokens_ || part.token == open.token);
}

std::optional<Chunker::PartPlace> Chunker::AddTo(Slot& slot,
                                                 const chunk::RecordSpec& part,
                                                 KeptLevel kept) const {
  // Reserved first, because adding the entry must not fail after the builder
  // has added the record.
  slot.contents.parts.reserve(slot.contents.parts.size() + 1);
  chunk::RecordSpec record = part;
  if (!kept.is_token_fixed) record.token += token_base_;
  const std::span<std::byte> payload = slot.builder.Add(record);
  if (payload.data() == nullptr) return std::nullopt;
  slot.last_sequence = part.sequence;
  ++slot.writer_count;
  const PartPlace place = {
      .slot = &slot,
      .payload = payload,
      .record_index = slot.builder.record_count() - 1,
      .part = {.sequence = part.sequence,
               .tensor_bytes = part.alias ? 0 : part.tensor_bytes,
               .is_first = part.part_offset == 0,
               .is_last = part.tensor_bytes - part.part_offset <= kPartBytes,
               .is_degraded = kept.is_degraded}};
  slot.contents.Add(place.part);
  return place;
}

bool Chunker::Withdraw(const PartPlace& place) {
  Slot* const slot = place.slot;
  slot->builder.LeaveOut(place.record_index);
  slot->contents.Remove(place.part);
  if (--slot->writer_count != 0) return false;
  const auto open = std::find(open_.begin(), open_.end(), slot);
  if (!slot->builder.has_nothing()) return open == open_.end();
  if (open != open_.end()) {
    *open = nullptr;
  } else {
    queue_.Remove(slot);
  }
  pool_.Release(slot);
  return true;
}

void Chunker::Seal(Slot*& open) {
  if (open == nullptr) return;
  pool_.CountChunk(open->token, open->builder.payload_bytes());
  queue_.Push(open);
  open = nullptr;
}

void Chunker::Seal() {
  // Sends bytes before summaries, regardless of their order.
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) Seal(*open);
}

void Chunker::SealBelow(int64_t token) {
  for (Slot*& open : open_) {
    if (open != nullptr && open->token < token) Seal(open);
  }
}

std::optional<std::chrono::steady_clock::time_point> Chunker::open_since()
    const {
  std::optional<std::chrono::steady_clock::time_point> oldest;
  for (const Slot* const open : open_) {
    if (open == nullptr) continue;
    oldest = oldest ? std::min(*oldest, open->start_time) : open->start_time;
  }
  return oldest;
}

}  // namespace msitd::libmsit
