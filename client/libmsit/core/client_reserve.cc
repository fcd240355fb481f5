// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "client/libmsit/core/client.h"
#include "client/libmsit/core/copy/part_payload.h"
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

Status Client::Reserve(const TensorView& tensor,
                       std::unique_ptr<Reservation>* reservation) {
  const RecordingScope scope(recording_time_);
  return Take(tensor, reservation);
}

bool Client::MayReserve(uint64_t tensor_bytes) const {
  return tensor_bytes <= Scratch::kBytes &&
         tensor_bytes <= pool_.capacity() / 2 * kPartBytes;
}

bool Client::FindRoom(const chunk::RecordSpec& record, size_t slot_count,
                      uint64_t scratch_bytes, Reservation& reservation,
                      std::optional<RoomWait>* wait, Lock& lock) {
  while (!is_closing_ && !was_refused_) {
    if (scratch_bytes != 0 && reservation.scratch.empty()) {
      reservation.scratch = scratch_.Take(scratch_bytes);
    }
    const bool has_scratch = scratch_bytes == 0 || !reservation.scratch.empty();
    // A single part waits when it reserves its place, which may be in an open
    // chunk.
    if (has_scratch && (slot_count == 1 || pool_.free_count() >= slot_count)) {
      return true;
    }
    // See Chunker::Reserve.
    if (queue_.empty()) chunker_.Seal();
    work_.notify_one();
    if (!MakeRoom(record.token, wait, lock)) return false;
  }
  return false;
}

Status Client::ReserveParts(const TensorView& tensor, KeptLevel kept,
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
      if (found->wakes_sender) work_.notify_one();
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
  ledger_.Record(part.tensor_bytes);
  *reservation = std::move(made);
  return {};
}

void Client::Withdraw(const Reservation& reservation, bool is_still_written) {
  bool has_completed = false;
  for (const Reservation::ReservedPart& part : reservation.parts) {
    part.place.slot->is_still_written |= is_still_written;
    has_completed |= chunker_.Withdraw(part.place);
  }
  for (const Chunker::PartPlace& alias : reservation.aliases) {
    has_completed |= chunker_.Withdraw(alias);
    ledger_.TakeBack();
  }
  if (!has_completed) return;
  work_.notify_one();
  // Chunks may have left the queue.
  room_.notify_all();
  progress_.notify_all();
}

bool Client::WithdrawOpenReservations() {
  // If the sender has ended, it has dropped and counted them.
  if (open_reservations_.empty() || is_sender_over_) return false;
  for (const auto& [sequence, reservation] :
       std::exchange(open_reservations_, {})) {
    Withdraw(*reservation, /*is_still_written=*/true);
    ledger_.TakeBack();
    ++withdrawal_count_;
  }
  aliases_.Clear();
  return true;
}

void Client::GiveScratch(const Reservation& reservation) {
  if (reservation.scratch.empty()) return;
  scratch_.Give(reservation.scratch);
  room_.notify_all();
}

Status Client::Publish(const Reservation& reservation, bool is_filled) {
  if (fork_guard_.in_child()) return ClosedOrForked();
  for (const Reservation::ReservedPart& part : reservation.parts) {
    const std::span<std::byte> payload = part.place.payload;
    if (!is_filled) {
      std::fill(payload.begin(), payload.end(), std::byte{0});
    } else if (part.has_digest) {
      PutDigest(part.bytes, reservation.dtype, payload);
    }
  }
  const Lock lock(mu_);
  const bool was_open = open_reservations_.erase(reservation.sequence) != 0;
  // The sender has ended, and has dropped and counted it.
  if (is_sender_over_) {
    return is_closing_ ? ClosedOrForked()
                       : Status{MSIT_ERROR_DROPPED, stream_error_};
  }
  // Close has withdrawn and counted it.
  if (!was_open) return ClosedOrForked();
  if (is_closing_) progress_.notify_all();
  if (is_filled) {
    bool has_completed = false;
    for (const Reservation::ReservedPart& part : reservation.parts) {
      has_completed |= chunker_.Written(part.place);
    }
    for (const Chunker::PartPlace& alias : reservation.aliases) {
      has_completed |= chunker_.Written(alias);
    }
    if (has_completed) {
      work_.notify_one();
      // A complete chunk may be dropped to make room for a higher token.
      if (overflow_.drops_oldest_token()) room_.notify_all();
    }
  } else {
    Withdraw(reservation, /*is_still_written=*/false);
    ledger_.TakeBack();
    ++withdrawal_count_;
    // The record may be an original.
    aliases_.Clear();
    WakeInTime();
  }
  GiveScratch(reservation);
  return {};
}

std::vector<std::span<std::byte>> Client::Memory() const {
  std::vector<std::span<std::byte>> memory;
  if (fork_guard_.in_child()) return memory;
  const Lock lock(mu_);
  if (!shared_memory_.empty()) memory.push_back(shared_memory_);
  if (!scratch_.memory().empty()) memory.push_back(scratch_.memory());
  return memory;
}

}  // namespace msitd::libmsit
