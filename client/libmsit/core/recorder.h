// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "client/libmsit/core/chunker.h"
#include "client/libmsit/core/client_options.h"
#include "client/libmsit/core/copy/scratch.h"
#include "client/libmsit/core/filter/alias_table.h"
#include "client/libmsit/core/filter/call_counter.h"
#include "client/libmsit/core/filter/record_filter.h"
#include "client/libmsit/core/interruptible_wait.h"
#include "client/libmsit/core/outgoing_chunks.h"
#include "client/libmsit/core/recording_time.h"
#include "client/libmsit/core/reservation.h"
#include "client/libmsit/core/status.h"
#include "client/libmsit/core/stream_sender.h"
#include "client/libmsit/core/stream_tokens.h"
#include "client/libmsit/core/tensor_view.h"
#include "protos/capture/capture_policy.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/compute/digest_memory.h"

namespace msitd::libmsit {

// Puts the tensors of a client into its chunks, on the threads of the host.
//
// A record is filtered without a lock. Then its call is numbered, its bytes are
// looked up among those of earlier records, and each of its parts gets a place
// in a chunk, with the lock of the chunks held. The bytes of a part are copied
// without the lock.
//
// Unless stated otherwise, functions acquire that lock themselves. Thread-safe.
class Recorder {
 public:
  using Clock = OutgoingChunks::Clock;
  using Lock = OutgoingChunks::Lock;

  // All references must stay valid as long as the object.
  Recorder(const ClientOptions& options, OutgoingChunks& chunks,
           StreamTokens& tokens, RecordFilter& filter, StreamSender& sender)
      : options_(options),
        chunks_(chunks),
        tokens_(tokens),
        filter_(filter),
        sender_(sender) {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Records a tensor or, with a `reservation`, reserves its places. See
  // Client::Record and Client::Reserve. `scope` measures the call; it is
  // prolonged unless the record is off.
  Status Record(const TensorView& tensor,
                std::unique_ptr<Reservation>* reservation,
                ShortCallScope& scope);
  // See Client::Publish.
  Status Publish(const Reservation& reservation, bool is_filled);

  // See Client::BeginCall.
  Status BeginCall(int64_t token, std::string_view op, int32_t* call);

  // Counts a record as dropped.
  void CountDrop();

  // The functions below must be called with the lock held.

  // Refuses further records, and waits for copies in progress. Releases `lock`
  // temporarily.
  void Close(Lock& lock);
  bool is_closing() const { return is_closing_; }
  // Waits until no reservation is open. Returns false if the host interrupts.
  // Releases `lock` temporarily.
  bool WaitForReservations(Clock::time_point deadline, InterruptibleWait& wait,
                           Lock& lock);
  // Withdraws and counts all reservations that the host has not ended. Returns
  // false if there are none.
  bool WithdrawOpenReservations();
  // Memory for bytes of which only digests are sent. Empty until it is used.
  std::span<std::byte> scratch_memory() const { return scratch_.memory(); }

 private:
  // One in this many digests is sent with its bytes, for the daemon to check.
  static constexpr uint32_t kDigestsPerCheck = 64;
  // Parts whose summaries are remembered: enough for the weights of 64
  // GiB.
  static constexpr size_t kDigestsKnown = size_t{1} << 14;

  // A place for a part. `wakes_sender`: reserving it sealed or began a chunk,
  // so the caller must wake the sender.
  struct FoundPlace {
    Chunker::PartPlace place;
    bool wakes_sender = false;
  };

  // The wait of one record for room.
  struct RoomWait {
    Clock::time_point deadline;
    InterruptibleWait wait;
    bool was_interrupted = false;
    bool has_timed_out = false;
  };

  // How a record is kept, and whether it names another record that has the same
  // bytes.
  struct Plan {
    KeptLevel kept;
    std::optional<AliasTable::Original> original = {};
    // Value of withdrawal_count_ when `original` was found.
    uint64_t withdrawal_count = 0;
    int32_t call = 0;
  };

  // Returns whether the record describes the rank of a client whose own tokens
  // may move.
  bool IsTokenFixed(const TensorView& tensor) const {
    return options_.if_exists == IfExists::kAppend &&
           tensor.kind == RecordKind::kDocument && tensor.token == 0;
  }
  // Returns the level at which the tensor is recorded. Counts a tensor that is
  // not recorded.
  capture::Level TakeLevel(const TensorView& tensor, std::string_view device,
                           int64_t token, ShortCallScope& scope);
  // Records a tensor that the policy requests at `level`, or reserves its
  // places.
  Status RecordAt(capture::Level level, const TensorView& tensor, int64_t token,
                  std::unique_ptr<Reservation>* reservation);

  // The functions below must be called with the lock held. Those that receive
  // it release it temporarily.

  // Numbers the call of a record of `tensor_bytes` bytes that is requested at
  // `level`, and plans how it is kept. Sets `*status` to UNKNOWN_IDENTITY if
  // the record has no bytes and no original, and to NO_MEMORY if the call
  // cannot be numbered.
  Plan MakePlan(capture::Level level, const TensorView& tensor, int64_t token,
                uint64_t tensor_bytes, Status* status);
  // Returns how the record is kept, without its call.
  Plan FindOriginal(capture::Level level, const TensorView& tensor,
                    int64_t token);
  // Decides how much is kept of a record that is requested at `level`; the
  // result applies to all its parts.
  KeptLevel TakeKeptLevel(capture::Level level);
  std::optional<int32_t> NumberCall(const TensorView& tensor, int64_t token);

  Status RecordParts(const TensorView& tensor, const Plan& plan,
                     chunk::RecordSpec& part, Lock& lock);
  // Ties an alias with a place to the open reservation that is its original.
  // The end of the reservation then also ends the place. Returns false if there
  // is no such reservation.
  bool TieToOriginal(const Plan& plan, const Chunker::PartPlace& place);
  // Returns whether the record is an alias whose original may have been
  // withdrawn.
  bool HasLostOriginal(const Plan& plan) const {
    return plan.original.has_value() &&
           plan.withdrawal_count != withdrawal_count_;
  }
  // Decides whether a part of `part_bytes` bytes is recorded as its digest, and
  // sets the corresponding fields of `part`.
  void SizePayload(const TensorView& tensor, KeptLevel kept,
                   uint64_t part_bytes, chunk::RecordSpec& part);
  // Fills a place with the next bytes of the tensor, or with their digest.
  // Called without the lock. Returns false if the source of the tensor fails;
  // the place then contains zeros.
  bool FillPart(const TensorView& tensor, const chunk::RecordSpec& part,
                std::span<const std::byte> held, std::span<std::byte> out);
  // Wakes the threads that may wait for a sealed chunk to be complete.
  void OnCompleted();
  // Counts a record that ends before its next part.
  void GiveUp(const chunk::RecordSpec& part);
  // Finds room for a part, and waits for it if the overflow mode permits. The
  // first wait of a record sets `*wait`, whose deadline applies to all its
  // parts. Returns nullopt at the deadline, if the host interrupts, if the
  // stream is over, or if another part of the tensor was dropped.
  std::optional<FoundPlace> FindPlace(const chunk::RecordSpec& part,
                                      KeptLevel kept,
                                      std::optional<RoomWait>* wait,
                                      Lock& lock);
  // Called when there is no room for a record of `token`. Makes room, or waits
  // until there may be room, like FindPlace. Returns false if there cannot
  // be any.
  bool MakeRoom(int64_t token, std::optional<RoomWait>* wait, Lock& lock);
  // Reserves the places for all parts of a record at once, so that two records
  // cannot wait for each other.
  Status ReserveParts(const TensorView& tensor, KeptLevel kept,
                      chunk::RecordSpec& part,
                      std::unique_ptr<Reservation>* reservation, Lock& lock);
  // Waits until there is room for the places that ReserveParts needs, without
  // reserving them.
  bool FindRoom(const chunk::RecordSpec& record, size_t slot_count,
                uint64_t scratch_bytes, Reservation& reservation,
                std::optional<RoomWait>* wait, Lock& lock);
  // Returns whether a reservation may have this many bytes.
  bool MayReserve(uint64_t tensor_bytes) const;
  // Removes all places of a reservation and of its aliases from their chunks,
  // and counts the aliases as dropped. `is_still_written`: the host has not
  // ended the reservation.
  void Withdraw(const Reservation& reservation, bool is_still_written);
  void GiveScratch(const Reservation& reservation);
  // Counts a record that fits into no chunk that the daemon accepts, and
  // reports the reason.
  Status LeaveOut(const chunk::RecordSpec& record);
  // Returns why FindPlace found no place.
  Status NoPlace(const std::optional<RoomWait>& wait) const;
  // The originals whose records are not known to be dropped.
  AliasTable& originals();

  const ClientOptions& options_;
  OutgoingChunks& chunks_;
  StreamTokens& tokens_;
  RecordFilter& filter_;
  StreamSender& sender_;

  CallCounter call_counter_;
  // Access it by originals().
  AliasTable aliases_;
  // OutgoingChunks::drop_count() when aliases_ was last used.
  uint64_t seen_drop_count_ = 0;
  Scratch scratch_;
  compute::DigestMemory digests_{kDigestsKnown};
  // Digests since one was last sent with its bytes. The first one is sent with
  // bytes.
  uint32_t digest_count_ = kDigestsPerCheck - 1;
  // Reservations that the host has not ended, by sequence.
  std::map<uint64_t, Reservation*> open_reservations_;
  // Number of reservations that were given up after records may have become
  // their aliases.
  uint64_t withdrawal_count_ = 0;
  uint64_t next_sequence_ = 0;
  // Threads that are copying bytes into a place.
  uint64_t writer_count_ = 0;
  bool is_closing_ = false;
};

}  // namespace msitd::libmsit
