// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "client/libmsit/core/copy/part_payload.h"
#include "client/libmsit/core/recorder.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk_format.h"
#include "protos/os/aligned_buffer.h"

// Records whose bytes are supplied later. Their places are reserved when the
// record begins, and their chunks are not sent before the bytes are there.
namespace msitd::libmsit {
namespace {

// The space that a part needs in a chunk and in the scratch memory.
struct PartSize {
  uint64_t bytes = 0;
  uint64_t payload_bytes = 0;
  bool has_digest = false;

  bool needs_scratch() const {
    return has_digest && payload_bytes == sizeof(Digest);
  }
};

// Returns the maximum number of empty chunks needed for the parts.
size_t SlotCount(const std::vector<PartSize>& sizes) {
  size_t count = 1;
  uint64_t used = 0;
  for (const PartSize& size : sizes) {
    if (used + size.payload_bytes > kChunkPayloadBytesMax) {
      ++count;
      used = 0;
    }
    used = AlignUp(used + size.payload_bytes, kRecordAlignment);
  }
  return count;
}

uint64_t ScratchBytes(const std::vector<PartSize>& sizes) {
  uint64_t bytes = 0;
  for (const PartSize& size : sizes) {
    if (size.needs_scratch()) bytes += size.bytes;
  }
  return bytes;
}

}  // namespace

bool Recorder::MayReserve(uint64_t tensor_bytes) const {
  return tensor_bytes <= Scratch::kBytes &&
         tensor_bytes <= chunks_.pool().capacity() / 2 * kPartBytes;
}

bool Recorder::FindRoom(const chunk::RecordSpec& record, size_t slot_count,
                        uint64_t scratch_bytes, Reservation& reservation,
                        std::optional<RoomWait>* wait, Lock& lock) {
  while (!is_closing_ && !sender_.status().was_refused) {
    if (scratch_bytes != 0 && reservation.scratch.empty()) {
      reservation.scratch = scratch_.Take(scratch_bytes);
    }
    const bool has_scratch = scratch_bytes == 0 || !reservation.scratch.empty();
    // A single part waits when it reserves its place, which may be in an open
    // chunk.
    if (has_scratch &&
        (slot_count == 1 || chunks_.pool().free_count() >= slot_count)) {
      return true;
    }
    // See Chunker::Reserve.
    if (chunks_.empty()) chunks_.Seal();
    chunks_.work().notify_one();
    if (!MakeRoom(record.token, wait, lock)) return false;
  }
  return false;
}

Status Recorder::ReserveParts(const TensorView& tensor, KeptLevel kept,
                              chunk::RecordSpec& part,
                              std::unique_ptr<Reservation>* reservation,
                              Lock& lock) {
  std::vector<PartSize> sizes;
  for (uint64_t at = 0; at < part.tensor_bytes; at += kPartBytes) {
    const uint64_t bytes = std::min(kPartBytes, part.tensor_bytes - at);
    SizePayload(tensor, kept, bytes, part);
    sizes.push_back({bytes, part.part_bytes, part.has_digest});
  }
  auto made = std::make_unique<Reservation>();
  made->dtype = tensor.dtype;
  made->tensor_bytes = part.tensor_bytes;
  made->sequence = part.sequence;
  made->parts.reserve(sizes.size());
  std::optional<RoomWait> wait;
  const auto give_up = [&] {
    Withdraw(*made, /*is_still_written=*/false);
    GiveScratch(*made);
    GiveUp(part);
  };
  try {
    bool has_room = FindRoom(part, SlotCount(sizes), ScratchBytes(sizes), *made,
                             &wait, lock);
    uint64_t scratch_at = 0;
    for (const PartSize& size : sizes) {
      if (!has_room) break;
      part.part_bytes = size.payload_bytes;
      part.has_digest = size.has_digest;
      const std::optional<FoundPlace> found =
          FindPlace(part, kept, &wait, lock);
      has_room = found.has_value();
      if (!found) break;
      if (found->wakes_sender) chunks_.work().notify_one();
      Reservation::ReservedPart& added = made->parts.emplace_back(
          Reservation::ReservedPart{.place = found->place,
                                    .bytes = found->place.payload,
                                    .has_digest = size.has_digest});
      if (size.needs_scratch()) {
        added.bytes = made->scratch.subspan(scratch_at, size.bytes);
        scratch_at += size.bytes;
      } else if (size.has_digest) {
        added.bytes = added.bytes.subspan(chunk::kDigestSpan);
      }
      part.part_offset += size.bytes;
    }
    part.part_offset = 0;
    if (!has_room) {
      give_up();
      return NoPlace(wait);
    }
    open_reservations_.emplace(made->sequence, made.get());
  } catch (...) {
    Withdraw(*made, /*is_still_written=*/false);
    GiveScratch(*made);
    throw;
  }
  chunks_.ledger().Record(part.tensor_bytes);
  *reservation = std::move(made);
  return {};
}

void Recorder::Withdraw(const Reservation& reservation, bool is_still_written) {
  bool has_completed = false;
  for (const Reservation::ReservedPart& part : reservation.parts) {
    part.place.slot->is_still_written |= is_still_written;
    has_completed |= chunks_.Withdraw(part.place);
  }
  for (const Chunker::PartPlace& alias : reservation.aliases) {
    has_completed |= chunks_.Withdraw(alias);
    chunks_.ledger().TakeBack();
  }
  if (!has_completed) return;
  chunks_.work().notify_one();
  // Chunks may have left the queue.
  chunks_.room().notify_all();
  chunks_.progress().notify_all();
}

bool Recorder::WaitForReservations(Clock::time_point deadline,
                                   InterruptibleWait& wait, Lock& lock) {
  auto result = InterruptibleWait::Result::kWoken;
  while (!open_reservations_.empty() && !sender_.status().has_ended &&
         result == InterruptibleWait::Result::kWoken) {
    chunks_.Seal();
    chunks_.work().notify_one();
    result = wait.Until(chunks_.progress(), deadline, lock);
  }
  return result != InterruptibleWait::Result::kInterrupted;
}

bool Recorder::WithdrawOpenReservations() {
  // If the sender has ended, it has dropped and counted them.
  if (open_reservations_.empty() || sender_.status().has_ended) return false;
  for (const auto& [sequence, reservation] :
       std::exchange(open_reservations_, {})) {
    Withdraw(*reservation, /*is_still_written=*/true);
    chunks_.ledger().TakeBack();
    ++withdrawal_count_;
  }
  aliases_.Clear();
  return true;
}

void Recorder::GiveScratch(const Reservation& reservation) {
  if (reservation.scratch.empty()) return;
  scratch_.Give(reservation.scratch);
  chunks_.room().notify_all();
}

Status Recorder::Publish(const Reservation& reservation, bool is_filled) {
  for (const Reservation::ReservedPart& part : reservation.parts) {
    const std::span<std::byte> payload = part.place.payload;
    if (!is_filled) {
      std::fill(payload.begin(), payload.end(), std::byte{0});
    } else if (part.has_digest) {
      PutDigest(part.bytes, reservation.dtype, digests_, payload);
    }
  }
  const Lock lock(chunks_.mu());
  const bool was_open = open_reservations_.erase(reservation.sequence) != 0;
  // The sender has ended, and has dropped and counted it.
  if (sender_.status().has_ended) {
    return is_closing_ ? Closed()
                       : Status{MSIT_ERROR_DROPPED, sender_.status().error};
  }
  // Close has withdrawn and counted it.
  if (!was_open) return Closed();
  if (is_closing_) chunks_.progress().notify_all();
  if (is_filled) {
    bool has_completed = false;
    for (const Reservation::ReservedPart& part : reservation.parts) {
      has_completed |= chunks_.Written(part.place);
    }
    for (const Chunker::PartPlace& alias : reservation.aliases) {
      has_completed |= chunks_.Written(alias);
    }
    if (has_completed) OnCompleted();
  } else {
    Withdraw(reservation, /*is_still_written=*/false);
    chunks_.ledger().TakeBack();
    ++withdrawal_count_;
    // The record may be an original.
    aliases_.Clear();
    sender_.WakeInTime();
  }
  GiveScratch(reservation);
  return {};
}

}  // namespace msitd::libmsit
