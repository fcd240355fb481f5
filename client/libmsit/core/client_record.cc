// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>
#include <utility>

#include "client/libmsit/core/client.h"
#include "client/libmsit/core/copy/part_payload.h"
#include "client/libmsit/core/copy/stream_copy.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk_format.h"

// How the parts of an accepted record are placed in chunks.
namespace msitd::libmsit {

KeptLevel Client::TakeKeptLevel(capture::Level level) {
  if (level == capture::Level::kFull &&
      overflow_.MustDegrade(pool_.free_count(), pool_.capacity())) {
    return {.level = capture::Level::kSummary, .is_degraded = true};
  }
  return {.level = level};
}

void Client::SizePayload(const TensorView& tensor, KeptLevel kept,
                         uint64_t part_bytes, chunk::RecordSpec& part) {
  part.part_bytes = part.alias ? 0 : part_bytes;
  // Bytes that are not larger than their digest are sent, and the daemon
  // computes the digest.
  part.has_digest = takes_digests_ && kept.level == capture::Level::kSummary &&
                    part.kind == RecordKind::kTensor && !part.alias &&
                    tensor.source == nullptr && part_bytes > chunk::kDigestSpan;
  if (!part.has_digest) return;
  ++digest_count_;
  const uint64_t both = chunk::kDigestSpan + part_bytes;
  if (digest_count_ < kDigestsPerCheck || both > kChunkPayloadBytesMax) {
    part.part_bytes = sizeof(Digest);
    return;
  }
  digest_count_ = 0;
  part.part_bytes = both;
}

bool Client::FillPart(const TensorView& tensor, const chunk::RecordSpec& part,
                      std::span<const std::byte> held,
                      std::span<std::byte> out) {
  if (part.has_digest) {
    FillDigested(tensor, part.part_offset,
                 std::min(kPartBytes, part.tensor_bytes - part.part_offset),
                 out);
    return true;
  }
  if (tensor.source == nullptr) {
    CopyPart(tensor, part.part_offset, out);
    return true;
  }
  if (held.size() == out.size()) {
    if (!out.empty()) StreamCopy(held.data(), out);
    return true;
  }
  if (tensor.source->Read(out)) return true;
  std::fill(out.begin(), out.end(), std::byte{0});
  return false;
}

void Client::GiveUp(const chunk::RecordSpec& part) {
  part.part_offset == 0 ? ledger_.Drop() : ledger_.BreakOff(part.sequence);
  WakeInTime();
}

bool Client::TieToOriginal(const Plan& plan, const Chunker::PartPlace& place) {
  if (!plan.original) return false;
  const auto original = open_reservations_.find(plan.original->sequence);
  if (original == open_reservations_.end()) return false;
  try {
    original->second->aliases.push_back(place);
  } catch (const std::bad_alloc&) {
    // The alias is then recorded independently, and the daemon counts it if its
    // original is lost.
    return false;
  }
  return true;
}

Status Client::RecordParts(const TensorView& tensor, const Plan& plan,
                           chunk::RecordSpec& part, Lock& lock) {
  const KeptLevel kept = plan.kept;
  const Status failed = {MSIT_ERROR_DROPPED, "the source of the tensor failed"};
  std::optional<RoomWait> wait;
  do {
    const uint64_t part_bytes =
        std::min(kPartBytes, part.tensor_bytes - part.part_offset);
    SizePayload(tensor, kept, part_bytes, part);
    // A part that has a place cannot be taken back. The last part is therefore
    // read before it gets a place, so that a tensor whose source fails never
    // becomes complete.
    const bool is_last = part.part_offset + part_bytes == part.tensor_bytes;
    std::span<std::byte> held;
    if (tensor.source != nullptr) {
      wait.reset();
      if (is_last) {
        held = tensor.source->scratch().first(part.part_bytes);
        lock.unlock();
        const bool has_read = held.empty() || tensor.source->Read(held);
        lock.lock();
        if (!has_read) {
          if (part.part_offset != 0) GiveUp(part);
          return failed;
        }
      }
    }
    const std::optional<FoundPlace> found = FindPlace(part, kept, &wait, lock);
    if (!found) {
      GiveUp(part);
      return NoPlace(wait);
    }
    if (HasLostOriginal(plan)) {
      chunker_.Withdraw(found->place);
      GiveUp(part);
      return {MSIT_ERROR_DROPPED, "the record with its bytes was dropped"};
    }
    const bool is_tied = TieToOriginal(plan, found->place);
    ++writer_count_;
    lock.unlock();
    // Called without the lock, because the sender acquires it first when it
    // wakes.
    if (found->wakes_sender) work_.notify_one();
    const bool is_filled = FillPart(tensor, part, held, found->place.payload);
    lock.lock();
    --writer_count_;
    if (!is_tied && chunker_.Written(found->place)) {
      work_.notify_one();
      // A complete chunk may be dropped to make room for a higher token.
      if (overflow_.drops_oldest_token()) room_.notify_all();
    }
    if (is_closing_) progress_.notify_all();
    part.part_offset += part_bytes;
    if (!is_filled) {
      GiveUp(part);
      return failed;
    }
  } while (part.part_offset < part.tensor_bytes);
  part.alias ? ledger_.RecordAlias(part.tensor_bytes)
             : ledger_.Record(part.tensor_bytes);
  return {};
}

std::optional<Client::FoundPlace> Client::FindPlace(
    const chunk::RecordSpec& part, KeptLevel kept,
    std::optional<RoomWait>* wait, Lock& lock) {
  const auto open_before = chunker_.open_since();
  const uint64_t pushed_before = queue_.pushed_count();
  while (true) {
    if (is_closing_ || was_refused_ || ledger_.IsBroken(part.sequence)) {
      return std::nullopt;
    }
    const std::optional<Chunker::PartPlace> place =
        chunker_.Reserve(part, kept);
    // The sender must send sealed chunks, and seal new ones in time.
    const bool wakes_sender = chunker_.open_since() != open_before ||
                              queue_.pushed_count() != pushed_before;
    if (place) return FoundPlace{*place, wakes_sender};
    if (wakes_sender) work_.notify_one();
    if (!MakeRoom(part.token, wait, lock)) return std::nullopt;
  }
}

bool Client::MakeRoom(int64_t token, std::optional<RoomWait>* wait,
                      Lock& lock) {
  if (DropOldestToken(token)) return true;
  if (!*wait) {
    wait->emplace(RoomWait{overflow_.DeadlineFor(Clock::now()),
                           InterruptibleWait(options_.interrupt)});
  }
  RoomWait& one = **wait;
  if (one.has_timed_out) {
    overflow_.OnTimeout();
    return false;
  }
  switch (one.wait.Until(room_, one.deadline, lock)) {
    case InterruptibleWait::Result::kWoken:
      break;
    case InterruptibleWait::Result::kTimeout:
      // The caller then checks once more.
      one.has_timed_out = true;
      break;
    case InterruptibleWait::Result::kInterrupted:
      one.was_interrupted = true;
      return false;
  }
  return true;
}

Status Client::NoPlace(const std::optional<RoomWait>& wait) const {
  if (wait && wait->was_interrupted) return Interrupted();
  if (is_closing_) return ClosedOrForked();
  if (was_refused_) return {MSIT_ERROR_DROPPED, stream_error_};
  return {MSIT_ERROR_DROPPED, "no space within max_block_us",
          /*is_for_space=*/true};
}

bool Client::DropOldestToken(int64_t token) {
  if (!overflow_.drops_oldest_token()) return false;
  chunker_.SealBelow(token);
  const std::optional<int64_t> oldest = queue_.OldestToken();
  if (!oldest || *oldest >= token) return false;
  while (Slot* slot = queue_.TakeOut(*oldest)) Drop(slot);
  work_.notify_one();
  return true;
}

}  // namespace msitd::libmsit
