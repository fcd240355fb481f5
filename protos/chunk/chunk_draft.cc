// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/chunk_draft.h"

#include <cstring>

#include "protos/os/aligned_buffer.h"

namespace msitd::chunk {

void Draft::Start(uint64_t number, uint32_t flags, int64_t client_time_ns) {
  DraftHeader& draft = header();
  draft.sent_count.store(0, std::memory_order_relaxed);
  draft.record_count.store(0, std::memory_order_relaxed);
  draft.text_bytes.store(0, std::memory_order_relaxed);
  draft.client_time_ns.store(client_time_ns, std::memory_order_relaxed);
  draft.flags.store(flags, std::memory_order_relaxed);
  // Pairs with the load in RingReader::Drafts.
  draft.number.store(number, std::memory_order_release);
}

bool Draft::Fits(uint64_t text_bytes, uint64_t head_bytes) {
  return kDraftTextOffset + text_bytes + AlignUp(head_bytes, kChunkAlignment) <=
         kChunkHeadBytesMax;
}

void Draft::Add(uint32_t index, const RecordDescriptor& record,
                std::string_view text, size_t old_text_bytes) {
  DraftRecord& out = this->record(index);
  // Clears the value of an earlier chunk.
  out.is_written.store(0, std::memory_order_relaxed);
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  std::memcpy(out.begin, bytes, sizeof(out.begin));
  std::memcpy(out.end, bytes + offsetof(RecordDescriptor, payload_offset),
              sizeof(out.end));
  std::memcpy(piece_.data() + kDraftTextOffset + old_text_bytes,
              text.data() + old_text_bytes, text.size() - old_text_bytes);
  DraftHeader& draft = header();
  draft.text_bytes.store(static_cast<uint32_t>(text.size()),
                         std::memory_order_relaxed);
  // Pairs with the load in ReadDraft.
  draft.record_count.store(index + 1, std::memory_order_release);
}

void Draft::SetToken(uint32_t index, int64_t token) {
  std::memcpy(record(index).begin + offsetof(RecordDescriptor, token), &token,
              sizeof(token));
}

void Draft::SetWritten(uint32_t index) {
  // Pairs with the load in ReadDraft.
  record(index).is_written.store(1, std::memory_order_release);
}

void Draft::SetSent(uint64_t chunk_sequence) {
  header().sent_count.store(chunk_sequence + 1, std::memory_order_relaxed);
}

void Draft::End() { header().number.store(0, std::memory_order_relaxed); }

void Draft::CopyTo(std::span<std::byte> to) const {
  const DraftHeader& from = header();
  const Draft out(to);
  const uint64_t bytes =
      kDraftTextOffset + from.text_bytes.load(std::memory_order_relaxed);
  std::memcpy(to.data() + sizeof(DraftHeader),
              piece_.data() + sizeof(DraftHeader), bytes - sizeof(DraftHeader));
  DraftHeader& draft = out.header();
  const auto copy = [](const auto& one, auto& other) {
    other.store(one.load(std::memory_order_relaxed), std::memory_order_relaxed);
  };
  copy(from.sent_count, draft.sent_count);
  copy(from.record_count, draft.record_count);
  copy(from.text_bytes, draft.text_bytes);
  copy(from.client_time_ns, draft.client_time_ns);
  copy(from.flags, draft.flags);
  draft.number.store(from.number.load(std::memory_order_relaxed),
                     std::memory_order_release);
}

}  // namespace msitd::chunk
