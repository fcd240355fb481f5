// SPDX-License-Identifier: Apache-2.0
#include "client/core/chunker.h"

#include <algorithm>
#include <cstring>

#include "client/core/strided_copy.h"
#include "protos/base/check.h"

namespace msitd::client {

std::optional<Chunker::Place> Chunker::Reserve(const chunk::RecordSpec& part,
                                               capture::Level level) {
  const bool is_full = level == capture::Level::kFull;
  Slot*& open = is_full ? full_ : summary_;
  // Sequences may not decrease within a chunk, but threads that record large
  // tensors overtake each other between parts.
  if (open != nullptr && part.sequence < open->last_sequence) Seal(open);
  if (open != nullptr) {
    const std::span<std::byte> payload = AddTo(*open, part);
    if (payload.data() != nullptr) return Place{open, payload};
    Seal(open);
  }
  Slot* slot = pool_.Acquire();
  if (slot == nullptr) {
    // The chunk of the other level must not keep the last slot for itself.
    // Others that wait for the daemon will make room as well.
    if (queue_.empty()) Seal();
    return std::nullopt;
  }
  slot->builder.Start(run_, rank_, stream_id_, 0);
  if (!is_full) slot->builder.KeepSummariesOnly();
  slot->start_time = std::chrono::steady_clock::now();
  slot->start_time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  const std::span<std::byte> payload = AddTo(*slot, part);
  MSITD_CHECK(payload.data() != nullptr);
  open = slot;
  return Place{slot, payload};
}

std::span<std::byte> Chunker::AddTo(Slot& slot, const chunk::RecordSpec& part) {
  // Nothing may fail between the record's place and its entry here.
  slot.contents.parts.reserve(slot.contents.parts.size() + 1);
  const std::span<std::byte> payload = slot.builder.Add(part);
  if (payload.data() == nullptr) return payload;
  slot.last_sequence = part.sequence;
  ++slot.writer_count;
  if (part.part_bytes == part.tensor_bytes) {
    ++slot.contents.tensor_count;
    slot.contents.tensor_bytes += part.tensor_bytes;
  } else {
    slot.contents.parts.push_back(
        {.sequence = part.sequence,
         .tensor_bytes = part.tensor_bytes,
         .is_first = part.part_offset == 0,
         .is_last = part.part_offset + part.part_bytes == part.tensor_bytes});
  }
  return payload;
}

void Chunker::Seal(Slot*& open) {
  if (open == nullptr) return;
  queue_.Push(open);
  open = nullptr;
}

void Chunker::Seal() {
  Seal(full_);
  Seal(summary_);
}

std::optional<std::chrono::steady_clock::time_point> Chunker::open_since()
    const {
  if (full_ == nullptr && summary_ == nullptr) return std::nullopt;
  if (full_ == nullptr) return summary_->start_time;
  if (summary_ == nullptr) return full_->start_time;
  return std::min(full_->start_time, summary_->start_time);
}

void CopyPart(const TensorView& tensor, uint64_t part_offset,
              std::span<std::byte> out) {
  if (out.empty()) return;
  const uint32_t element_bytes = ElementBytes(tensor.dtype);
  if (tensor.byte_strides.empty() ||
      IsContiguous(tensor.dims, tensor.byte_strides, element_bytes)) {
    std::memcpy(out.data(), tensor.data + part_offset, out.size());
    return;
  }
  CopyStrided(tensor.data, tensor.dims, tensor.byte_strides, element_bytes,
              part_offset / element_bytes, out.size() / element_bytes,
              out.data());
}

}  // namespace msitd::client
