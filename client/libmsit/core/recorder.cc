// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/recorder.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "client/libmsit/core/copy/part_payload.h"
#include "client/libmsit/core/copy/stream_copy.h"
#include "client/libmsit/core/record_text.h"
#include "protos/base/limits.h"
#include "protos/base/request.h"
#include "protos/chunk/chunk_format.h"

namespace msitd::libmsit {
namespace {

// Returns whether a tensor gets the same key as a record of its token.
bool IsSameRecord(const AliasTable::Original& record, const TensorView& tensor,
                  int32_t call) {
  return record.call == call && record.io == tensor.io &&
         record.op == tensor.op && record.index == tensor.index;
}

// Returns the description of a tensor without its texts and its position in the
// stream.
chunk::RecordSpec SpecOf(const TensorView& tensor, int64_t token, int32_t call,
                         uint64_t tensor_bytes) {
  return {.device = tensor.device,
          .token = token,
          .op = tensor.op,
          .call = call,
          .io = tensor.io,
          .index = tensor.index,
          .dtype = tensor.dtype,
          .dims = tensor.dims,
          .tensor_bytes = tensor_bytes,
          .part_offset = 0,
          .part_bytes = 0,
          .placement = tensor.placement,
          .kind = tensor.kind,
          .requires_grad = tensor.requires_grad};
}

Status UnknownIdentity() {
  return {MSIT_ERROR_UNKNOWN_IDENTITY,
          "no record of this token has the identity"};
}

}  // namespace

Status Recorder::Record(const TensorView& tensor,
                        std::unique_ptr<Reservation>* reservation,
                        ShortCallScope& scope) {
  const std::string_view device =
      tensor.device.empty() ? options_.device : tensor.device;
  const bool is_token_fixed = IsTokenFixed(tensor);
  const int64_t token =
      is_token_fixed ? tensor.token : tokens_.Counted(tensor.token);
  if (!is_token_fixed) sender_.Begin(token);
  if (tensor.kind == RecordKind::kDocument &&
      tensor.op.starts_with(kRequestOpPrefix)) {
    scope.Prolong();
    filter_.AddRequest(is_token_fixed ? token : token + tokens_.base(),
                       tensor.op.substr(kRequestOpPrefix.size()));
  }
  const capture::Level level = tensor.kind == RecordKind::kDocument
                                   ? capture::Level::kFull
                                   : TakeLevel(tensor, device, token, scope);
  if (level == capture::Level::kOff) return {};
  scope.Prolong();
  TensorView complete = tensor;
  complete.device = device;
  CompleteForKind(complete);
  return RecordAt(level, complete, token, reservation);
}

capture::Level Recorder::TakeLevel(const TensorView& tensor,
                                   std::string_view device, int64_t token,
                                   ShortCallScope& scope) {
  const capture::Level level =
      filter_.Take(device, token + tokens_.base(), tensor.op, tensor.io);
  if (level == capture::Level::kOff && filter_.TakeWatch()) {
    // Only this wakes the sender to report. The lock ensures that the sender
    // either waits already or will read the counts again.
    scope.Prolong();
    const Lock lock(chunks_.mu());
    chunks_.work().notify_one();
  }
  return level;
}

Status Recorder::RecordAt(capture::Level level, const TensorView& tensor,
                          int64_t token,
                          std::unique_ptr<Reservation>* reservation) {
  uint64_t tensor_bytes = 0;
  Status status = CheckTensor(tensor, &tensor_bytes);
  if (status.ok() && !IsTokenFixed(tensor) &&
      token + tokens_.base() > kTokenMax) {
    status = InvalidArgument("the current token is over its limit");
  }
  Lock lock(chunks_.mu());
  if (!status.ok()) {
    chunks_.ledger().CountInvalid();
    return status;
  }
  if (reservation != nullptr && !MayReserve(tensor_bytes)) {
    return {MSIT_ERROR_TOO_LARGE,
            "the client does not have enough memory to reserve for the tensor"};
  }
  const Plan plan = MakePlan(level, tensor, token, tensor_bytes, &status);
  if (!status.ok()) return status;
  std::string value;
  std::string stack;
  chunk::RecordSpec part = SpecOf(tensor, token, plan.call, tensor_bytes);
  part.sequence = next_sequence_++;
  part.stack = FitStack(tensor.stack, stack);
  if (HasValueText(tensor.kind)) part.value = FitValue(tensor.value, value);
  if (plan.original) part.alias = plan.original->AsSpec();
  if (chunk::VersionFor(part) > sender_.status().chunk_version)
    return LeaveOut(part);
  const bool has_own_bytes = !plan.original && tensor_bytes != 0;
  status = reservation != nullptr && has_own_bytes
               ? ReserveParts(tensor, plan.kept, part, reservation, lock)
               : RecordParts(tensor, plan, part, lock);
  if (status.ok() && has_own_bytes && tensor.kind == RecordKind::kTensor &&
      !chunks_.ledger().IsBroken(part.sequence)) {
    originals().Add(tensor, part, plan.kept.level);
  }
  return status;
}

Recorder::Plan Recorder::MakePlan(capture::Level level,
                                  const TensorView& tensor, int64_t token,
                                  uint64_t tensor_bytes, Status* status) {
  Plan plan = FindOriginal(level, tensor, token);
  plan.call = tensor.call;
  const bool needs_original = tensor.data == nullptr &&
                              tensor.source == nullptr && !tensor.comes_later &&
                              tensor_bytes != 0;
  if (needs_original && !plan.original) {
    *status = UnknownIdentity();
    return plan;
  }
  if (plan.call == MSIT_CALL_AUTO) {
    const std::optional<int32_t> next = NumberCall(tensor, token);
    if (!next) {
      chunks_.ledger().Drop();
      sender_.WakeInTime();
      *status = {MSIT_ERROR_NO_MEMORY, "too many ops in one token"};
      return plan;
    }
    plan.call = *next;
  }
  // If the calls of an op are numbered in both ways, a record may have the same
  // call number as its original. Daemons reject an alias of itself.
  if (plan.original && IsSameRecord(*plan.original, tensor, plan.call)) {
    if (needs_original) {
      *status = UnknownIdentity();
      return plan;
    }
    plan.original.reset();
    plan.kept = TakeKeptLevel(level);
  }
  return plan;
}

Recorder::Plan Recorder::FindOriginal(capture::Level level,
                                      const TensorView& tensor, int64_t token) {
  // Values are small, and a document must be complete.
  if (tensor.kind != RecordKind::kTensor) {
    return {.kept = {.level = level, .is_token_fixed = IsTokenFixed(tensor)}};
  }
  // After a conflict, an original in the run may have other bytes.
  const bool may_alias = sender_.conflict_count() == 0;
  Plan plan;
  plan.withdrawal_count = withdrawal_count_;
  if (may_alias) {
    plan.original = originals().Find(tensor, token, tensor.call, level);
  }
  if (!plan.original) {
    plan.kept = TakeKeptLevel(level);
    if (!plan.kept.is_degraded || !may_alias) return plan;
    plan.original =
        originals().Find(tensor, token, tensor.call, plan.kept.level);
  }
  if (plan.original) plan.kept.level = plan.original->level;
  return plan;
}

Status Recorder::BeginCall(int64_t token, std::string_view op, int32_t* call) {
  Status status = CheckName("op", op, kOpBytesMax, false);
  if (!status.ok()) return status;
  const int64_t named = tokens_.NumberOf(token);
  if (named < 0 || named > kTokenMax) {
    return InvalidArgument("token " + std::to_string(named) + " is not in 0.." +
                           std::to_string(kTokenMax));
  }
  const int64_t counted = tokens_.Counted(token);
  const Lock lock(chunks_.mu());
  const std::optional<int32_t> next = call_counter_.Next(counted, op);
  if (!next) return {MSIT_ERROR_NO_MEMORY, "too many ops in one token"};
  *call = *next;
  return {};
}

std::optional<int32_t> Recorder::NumberCall(const TensorView& tensor,
                                            int64_t token) {
  // Ops and indices do not contain NUL, so these names differ from each other
  // and from those of BeginCall.
  std::string name(tensor.op);
  name += '\0';
  name += static_cast<char>(tensor.io);
  name += tensor.index;
  name += '\0';
  name += tensor.device;
  return call_counter_.Next(token, name);
}

Status Recorder::LeaveOut(const chunk::RecordSpec& record) {
  chunks_.ledger().Drop();
  sender_.WakeInTime();
  std::string why = "the daemon is too old for records of kind ";
  why += RecordKindName(record.kind);
  why += ": it accepts chunks up to version " +
         std::to_string(sender_.status().chunk_version);
  sender_.SetError(why);
  return {MSIT_ERROR_DROPPED, std::move(why)};
}

void Recorder::CountDrop() {
  const Lock lock(chunks_.mu());
  chunks_.ledger().Drop();
  sender_.WakeInTime();
}

AliasTable& Recorder::originals() {
  // Any of the chunks that were dropped may have contained originals.
  if (seen_drop_count_ != chunks_.drop_count()) aliases_.Clear();
  seen_drop_count_ = chunks_.drop_count();
  return aliases_;
}

void Recorder::Close(Lock& lock) {
  is_closing_ = true;
  // Later records are refused instead of filtered. Records that were already
  // filtered are included in the final report of the sender.
  filter_.Stop();
  chunks_.room().notify_all();
  // A copy in progress ends soon, so it is waited for without a deadline.
  while (writer_count_ != 0) chunks_.progress().wait(lock);
}

KeptLevel Recorder::TakeKeptLevel(capture::Level level) {
  if (level == capture::Level::kFull &&
      chunks_.overflow().MustDegrade(chunks_.pool().free_count(),
                                     chunks_.pool().capacity())) {
    return {.level = capture::Level::kSummary, .is_degraded = true};
  }
  return {.level = level};
}

void Recorder::SizePayload(const TensorView& tensor, KeptLevel kept,
                           uint64_t part_bytes, chunk::RecordSpec& part) {
  part.part_bytes = part.alias ? 0 : part_bytes;
  // Bytes that are not larger than their digest are sent, and the daemon
  // computes the digest.
  part.has_digest = sender_.status().takes_digests &&
                    kept.level == capture::Level::kSummary &&
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

bool Recorder::FillPart(const TensorView& tensor, const chunk::RecordSpec& part,
                        std::span<const std::byte> held,
                        std::span<std::byte> out) {
  if (part.has_digest) {
    FillDigested(tensor, part.part_offset,
                 std::min(kPartBytes, part.tensor_bytes - part.part_offset),
                 digests_, out);
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

void Recorder::OnCompleted() {
  chunks_.work().notify_one();
  // A complete chunk may be dropped to make room for a higher token.
  if (chunks_.overflow().drops_oldest_token()) chunks_.room().notify_all();
}

void Recorder::GiveUp(const chunk::RecordSpec& part) {
  part.part_offset == 0 ? chunks_.ledger().Drop()
                        : chunks_.ledger().BreakOff(part.sequence);
  sender_.WakeInTime();
}

bool Recorder::TieToOriginal(const Plan& plan,
                             const Chunker::PartPlace& place) {
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

Status Recorder::RecordParts(const TensorView& tensor, const Plan& plan,
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
      chunks_.Withdraw(found->place);
      GiveUp(part);
      return {MSIT_ERROR_DROPPED, "the record with its bytes was dropped"};
    }
    const bool is_tied = TieToOriginal(plan, found->place);
    ++writer_count_;
    lock.unlock();
    // Called without the lock, because the sender acquires it first when it
    // wakes.
    if (found->wakes_sender) chunks_.work().notify_one();
    const bool is_filled = FillPart(tensor, part, held, found->place.payload);
    lock.lock();
    --writer_count_;
    if (!is_tied && chunks_.Written(found->place)) OnCompleted();
    if (is_closing_) chunks_.progress().notify_all();
    part.part_offset += part_bytes;
    if (!is_filled) {
      GiveUp(part);
      return failed;
    }
  } while (part.part_offset < part.tensor_bytes);
  part.alias ? chunks_.ledger().RecordAlias(part.tensor_bytes)
             : chunks_.ledger().Record(part.tensor_bytes);
  return {};
}

std::optional<Recorder::FoundPlace> Recorder::FindPlace(
    const chunk::RecordSpec& part, KeptLevel kept,
    std::optional<RoomWait>* wait, Lock& lock) {
  const OutgoingChunks::SealState before = chunks_.seal_state();
  while (true) {
    if (is_closing_ || sender_.status().was_refused ||
        chunks_.ledger().IsBroken(part.sequence)) {
      return std::nullopt;
    }
    const std::optional<Chunker::PartPlace> place = chunks_.Reserve(part, kept);
    const bool wakes_sender = chunks_.seal_state() != before;
    if (place) return FoundPlace{*place, wakes_sender};
    if (wakes_sender) chunks_.work().notify_one();
    if (!MakeRoom(part.token, wait, lock)) return std::nullopt;
  }
}

bool Recorder::MakeRoom(int64_t token, std::optional<RoomWait>* wait,
                        Lock& lock) {
  if (chunks_.DropOldestToken(token)) return true;
  if (!*wait) {
    wait->emplace(RoomWait{chunks_.overflow().DeadlineFor(Clock::now()),
                           InterruptibleWait(options_.interrupt)});
  }
  RoomWait& one = **wait;
  if (one.has_timed_out) {
    chunks_.overflow().OnTimeout();
    return false;
  }
  switch (one.wait.Until(chunks_.room(), one.deadline, lock)) {
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

Status Recorder::NoPlace(const std::optional<RoomWait>& wait) const {
  if (wait && wait->was_interrupted) return Interrupted();
  if (is_closing_) return Closed();
  if (sender_.status().was_refused)
    return {MSIT_ERROR_DROPPED, sender_.status().error};
  return {MSIT_ERROR_DROPPED, "no space within max_block_us",
          /*is_for_space=*/true};
}

}  // namespace msitd::libmsit
