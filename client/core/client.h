// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/core/chunker.h"
#include "client/core/copy/scratch.h"
#include "client/core/delivery/delivery_ledger.h"
#include "client/core/delivery/delivery_queue.h"
#include "client/core/delivery/slot_pool.h"
#include "client/core/delivery/transport.h"
#include "client/core/filter/alias_table.h"
#include "client/core/filter/call_counter.h"
#include "client/core/filter/record_filter.h"
#include "client/core/fork_guard.h"
#include "client/core/interruptible_wait.h"
#include "client/core/launch.h"
#include "client/core/overflow.h"
#include "client/core/recording_time.h"
#include "client/core/reservation.h"
#include "client/core/status.h"
#include "client/core/tensor_view.h"
#include "client/core/token_reference.h"
#include "protos/capture/capture_policy.h"

namespace msitd::client {

// Of ClientOptions::buffer_bytes: the client finds it out.
inline constexpr uint64_t kBufferAuto = MSIT_BUFFER_AUTO;

// Plain values of msit_options; see there.
struct ClientOptions {
  std::string run;
  int32_t rank = 0;
  int32_t world_size = 1;
  OverflowMode overflow = OverflowMode::kBlock;
  std::chrono::microseconds max_block{std::chrono::seconds(1)};
  uint64_t buffer_bytes = kBufferAuto;
  std::chrono::microseconds linger{std::chrono::milliseconds(20)};
  std::chrono::microseconds open_timeout{std::chrono::seconds(5)};
  std::string device = "cpu:0";
  std::string user_agent;
  InterruptCheck interrupt;
  IfExists if_exists = IfExists::kFail;
  // Empty: the text of LaunchOf.
  std::string job;
  // Where the daemon is; only tells daemons apart.
  std::string endpoint;

  // The most that kBufferAuto uses. 0: a share of the memory of the node.
  uint64_t auto_bytes_max = 0;

  // How long the sender waits for the answer to an opening, and how long it
  // waits before it opens again: backoff_min at first, doubled after each
  // failure up to backoff_max.
  std::chrono::milliseconds answer_timeout{10'000};
  std::chrono::milliseconds backoff_min{100};
  std::chrono::milliseconds backoff_max{5'000};

  // Shortest time between two reports of what became of the records. Nothing is
  // reported while nothing changes. At the end of the stream what is left is
  // reported at once.
  std::chrono::milliseconds report_interval{1'000};
};

// Plain values of msit_counters; see there.
struct ClientCounters {
  uint64_t recorded_count = 0;
  uint64_t recorded_bytes = 0;
  uint64_t acknowledged_count = 0;
  uint64_t acknowledged_bytes = 0;
  uint64_t dropped_count = 0;
  uint64_t truncated_count = 0;
  uint64_t invalid_count = 0;
  uint64_t filtered_count = 0;
  uint64_t refused_chunk_count = 0;
  uint64_t reconnect_count = 0;
  uint64_t degraded_count = 0;
  uint64_t conflict_count = 0;
  uint64_t aliased_count = 0;
  uint64_t aliased_bytes = 0;
  uint64_t recording_ns = 0;
  uint64_t open_ns = 0;
};

// Records tensors of one rank of one run. Implements msit.h and keeps its
// contract. Thread-safe.
//
// Recording threads copy into slots of the open chunks. One sender thread seals
// chunks that linger, hands them to the transport, opens the stream again when
// it breaks, and drops chunks that the daemon refuses.
//
// Throws std::bad_alloc or std::system_error if the system has no memory or
// threads left. The C interface catches both.
class Client final : private TransportListener {
 public:
  // Waits for the daemon for at most `options.open_timeout`. 0: does not wait.
  //
  // Errors: INVALID_ARGUMENT, UNAVAILABLE, REFUSED, INTERRUPTED.
  static Status Open(ClientOptions options,
                     std::unique_ptr<Transport, TransportDestroyer> transport,
                     std::unique_ptr<Client>* client);

  // Closes with a timeout of 0. In a forked child the object must be leaked,
  // not destroyed.
  ~Client();

  // A record whose source fails is not taken: it is shown nowhere. Of a tensor
  // of several parts, some may have gone by then, and it counts as truncated; a
  // smaller one counts nowhere. DROPPED in both cases. Each part of a source
  // may wait for `max_block`.
  Status Record(const TensorView& tensor);

  // See msit_reserve; `tensor.comes_later` is true. Nothing if there is nothing
  // to copy. The caller ends the reservation with Publish, while the client
  // lives.
  Status Reserve(const TensorView& tensor,
                 std::unique_ptr<Reservation>* reservation);
  // See msit_publish.
  Status Publish(const Reservation& reservation, bool is_filled);
  // See msit_memory.
  std::vector<std::span<std::byte>> Memory() const;

  // See msit_enter and msit_leave. Record, Reserve and BeginCall count by
  // themselves.
  void Enter() { recording_time_.Enter(); }
  void Leave() { recording_time_.Leave(); }

  // Counts a record as dropped for which Record or Reserve threw.
  void CountDrop();

  // See msit_selects.
  bool Selects(int64_t token, std::string_view op, Io io);

  // See msit_level_of. An empty `device` is that of the client.
  capture::Level LevelAt(std::string_view device, int64_t token,
                         std::string_view op, Io io);

  // See msit_selection.
  uint64_t SelectionAt(int64_t token);

  int64_t token() const { return token_.load() + TokenBase(); }
  // See msit_token_reference and msit_token_number.
  int64_t TokenReference() const;
  int64_t TokenNumber(int64_t token) const;
  int64_t NextToken();
  Status SetToken(int64_t token);
  Status BeginCall(int64_t token, std::string_view op, int32_t* call);

  Status Flush(std::chrono::microseconds timeout);

  // Lets go of what was recorded so far, and returns a mark behind it, without
  // waiting. HasDelivered says whether all before a mark is acknowledged or
  // dropped.
  uint64_t Mark();
  bool HasDelivered(uint64_t mark) const;

  Status Close(std::chrono::microseconds timeout);

  ClientCounters counters() const;
  std::string stream_error() const;
  std::string run() const;
  bool in_forked_child() const { return fork_guard_.in_child(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  // Every so many digests, one is sent with its bytes, for the daemon to check.
  static constexpr uint32_t kDigestsPerCheck = 64;

  static constexpr int64_t kBaseUnknown = -1;

  enum class StreamState {
    kIdle,       // No connection; the next is opened at retry_time_.
    kOpening,    // Waiting for the first OnCommitted.
    kStreaming,  // Chunks go out.
    kFinishing,  // Finish was called.
    kOver,       // Finished, or refused for good.
  };

  struct Ended {
    StreamEnd end = StreamEnd::kLost;
    std::string message;
  };

  // A place for a part. `wakes_sender`: finding it sealed or began a chunk, and
  // the caller has to wake the sender.
  struct Found {
    Chunker::Place place;
    bool wakes_sender = false;
  };

  // The wait of one record for room.
  struct RoomWait {
    Clock::time_point deadline;
    InterruptibleWait wait;
    bool was_interrupted = false;
    bool has_timed_out = false;
  };

  Client(ClientOptions options,
         std::unique_ptr<Transport, TransportDestroyer> transport);

  void StartSender();
  Status WaitUntilOpen();

  // Inside of the client, tokens count from the token at which the stream
  // begins. A client that appends learns that token with the daemon's first
  // answer; what it has recorded by then moves along. A host that records at
  // the number of a token before the answer, or sets one, fixes it at 0.
  // References do not: see token_reference.h. Documents of token 0 describe the
  // rank, so they neither fix it nor move.
  //
  // Returns the token that it is, or will be unless the daemon says otherwise.
  int64_t TokenBase() const { return std::max(token_base_.load(), int64_t{0}); }
  // Returns the token that it is from now on.
  int64_t FixTokenBase();
  // Returns a token of a caller, or the current one, as the client counts it.
  // Fixes the token base if the caller has given a number.
  int64_t Counted(int64_t token);
  // The same for a caller that only asks. Nothing is fixed. Notes that the
  // token has begun, if it is known which one that is.
  int64_t CountedToAsk(int64_t token);
  // True if the record describes the rank of a client whose own tokens may
  // move.
  bool IsTokenFixed(const TensorView& tensor) const {
    return options_.if_exists == IfExists::kAppend &&
           tensor.kind == RecordKind::kDocument && tensor.token == 0;
  }

  // Returns how much of the tensor is recorded. Counts a tensor that is not.
  capture::Level TakeLevel(const TensorView& tensor, std::string_view device,
                           int64_t token);
  // Records a tensor, or reserves places for it.
  Status Take(const TensorView& tensor,
              std::unique_ptr<Reservation>* reservation);
  // The same for a tensor that the policy asks for at `level`.
  Status TakeAt(capture::Level level, const TensorView& tensor, int64_t token,
                std::unique_ptr<Reservation>* reservation);
  // Whether and how a record that is asked for at `level` names another one
  // whose bytes it has.
  struct Plan {
    KeptLevel kept;
    std::optional<AliasTable::Original> original = {};
    // withdrawal_count_ when `original` was found.
    uint64_t withdrawal_count = 0;
  };

  // Recording, in client.cc, client_record.cc and client_reserve.cc. All are
  // called with mu_ locked. Those that are given the lock release it for a
  // while.
  Plan TakePlan(capture::Level level, const TensorView& tensor, int64_t token);
  Status RecordParts(const TensorView& tensor, const Plan& plan,
                     chunk::RecordSpec& part, Lock& lock);
  // Ties an alias, which has got a place, to the open reservation that is its
  // original, which ends the place as well. False if there is none.
  bool TieToOriginal(const Plan& plan, const Chunker::Place& place);
  // True if the record is an alias whose original may be gone.
  bool HasLostOriginal(const Plan& plan) const {
    return plan.original.has_value() &&
           plan.withdrawal_count != withdrawal_count_;
  }
  // Decides whether a part of `part_bytes` bytes is recorded as its digest, and
  // sets what of `part` follows from that.
  void SizePayload(const TensorView& tensor, KeptLevel kept,
                   uint64_t part_bytes, chunk::RecordSpec& part);
  // Fills a place with the next bytes of the tensor, or their digest, without
  // the lock. False if its source fails: then the place has zeros.
  static bool FillPart(const TensorView& tensor, const chunk::RecordSpec& part,
                       std::span<const std::byte> held,
                       std::span<std::byte> out);
  // Counts a record that ends before its next part.
  void GiveUp(const chunk::RecordSpec& part);
  // Finds room for a part, and waits for it if the overflow behaviour says so.
  // The first wait of a record sets `*wait`, which has the deadline for all its
  // parts. Nothing at the deadline, if the host interrupts, if the stream is
  // over, or if another part of the tensor was dropped.
  std::optional<Found> FindPlace(const chunk::RecordSpec& part, KeptLevel kept,
                                 std::optional<RoomWait>* wait, Lock& lock);
  // Is told that there is no room for a record of `token`: makes some, or waits
  // until there may be more, as FindPlace does. False if there will be none.
  bool MakeRoom(int64_t token, std::optional<RoomWait>* wait, Lock& lock);
  // Takes places for all parts of a record at once, so that no two records wait
  // for what the other one has.
  Status ReserveParts(const TensorView& tensor, KeptLevel kept,
                      chunk::RecordSpec& part,
                      std::unique_ptr<Reservation>* reservation, Lock& lock);
  // Finds room for the places that ReserveParts takes, but takes none.
  bool FindRoom(const chunk::RecordSpec& record, size_t slot_count,
                uint64_t scratch_bytes, Reservation& reservation,
                std::optional<RoomWait>* wait, Lock& lock);
  // True if a reservation may have so many bytes.
  bool MayReserve(uint64_t tensor_bytes) const;
  // Takes all its places, and those of its aliases, out of their chunks, and
  // counts the aliases as dropped. `is_still_written`: the host has not ended
  // the reservation.
  void Withdraw(const Reservation& reservation, bool is_still_written);
  // Withdraws and counts all reservations that the host has not ended. False if
  // there are none.
  bool WithdrawOpenReservations();
  void GiveScratch(const Reservation& reservation);
  // Counts a record that no chunk can hold which the daemon takes, and notes
  // why in stream_error_.
  Status LeaveOut(const chunk::RecordSpec& record);
  // Why FindPlace found nothing.
  Status NoPlace(const std::optional<RoomWait>& wait) const;
  // Decides what is kept of a record that is asked for at `level`; the same for
  // all its parts.
  KeptLevel TakeKeptLevel(capture::Level level);
  // Drops the oldest token if it is lower than `token` and the overflow
  // behaviour is to do so. False if nothing was dropped.
  bool DropOldestToken(int64_t token);
  std::optional<int32_t> NumberCall(const TensorView& tensor, int64_t token);
  // Waits until everything pushed so far has left the queue. False at the
  // deadline, nothing if the host interrupts.
  std::optional<bool> WaitForDelivery(Clock::time_point deadline,
                                      InterruptibleWait& wait, Lock& lock);
  // Waits until no reservation is open. False if the host interrupts.
  bool WaitForReservations(Clock::time_point deadline, InterruptibleWait& wait,
                           Lock& lock);
  // Lets the sender end the stream in good order, at most until `deadline`.
  // Returns false if the host interrupted that.
  bool StopSender(Clock::time_point deadline, InterruptibleWait& wait,
                  Lock& lock);
  Status ClosedOrForked() const;

  // Sending, in client_sender.cc, on the sender thread. All are called with mu_
  // locked. Those that are given the lock release it for a while.
  void RunSender() noexcept;
  void Send(Lock& lock);
  // Does one step. False if there is nothing to do until the next wake-up.
  bool Advance(Lock& lock);
  bool AdvanceStream(Lock& lock);
  bool MustFinishFirst() const;
  void OpenStream(Lock& lock);
  // Returns what Transport::Stop does.
  bool StopStream(Lock& lock);
  void HandleEnd(Lock& lock);
  void RetryLater(std::string message);
  void EndForGood(std::string message);
  void Drop(Slot* slot);
  void DropQueued();
  // Drops all chunks at the end of the sender. Those with open reservations
  // keep their memory.
  void DropForGood();
  // When the open chunks have to be sealed. Nothing if they may stay open.
  std::optional<Clock::time_point> LingerTime() const;
  // Notes that `token` has begun. Called by recording threads, without mu_.
  void Begin(int64_t token);
  // True if a token has begun that the daemon does not know of.
  bool HasBegunTokens() const;
  // Has the next token that begins wake the sender, which looks for none until
  // then. False if one has begun.
  bool AwaitToken();
  // True if the last report of the stream would lack time that was spent.
  bool HasUnreportedTime() const;
  // Tells the daemon counts, times and tokens.
  void Report(Lock& lock);
  // When to tell the daemon the counts. Nothing if it knows them all: then
  // whoever changes them wakes the sender (WakeInTime, TakeLevel).
  std::optional<Clock::time_point> ReportTime();
  std::optional<Clock::time_point> WakeTime();
  // Wakes the sender if it has to wake earlier or later than it planned.
  void WakeInTime();

  // TransportListener, on threads of the transport.
  void OnSharedMemory(std::span<std::byte> memory) override;
  void OnCapturePolicy(std::string_view policy) override;
  void OnRun(std::string_view run) override;
  void OnChunkVersion(uint32_t version) override;
  void OnFirstToken(uint64_t token) override;
  void OnConflicts(uint64_t conflict_count) override;
  void OnCommitted(uint64_t committed_count) override;
  void OnEnd(StreamEnd end, std::string_view message) override;

  const ForkGuard fork_guard_;
  const ClientOptions options_;
  const RecordedRank recorded_rank_;
  // Which recording of it in this process.
  const uint32_t recording_;
  const std::string job_;
  const uint64_t stream_id_;
  // The most that the slots take.
  const uint64_t buffer_bytes_;
  // Called by the sender thread only.
  const std::unique_ptr<Transport, TransportDestroyer> transport_;

  // Counts from the token base, like token_end_ and every token that is passed
  // between functions of this class.
  std::atomic<int64_t> token_{0};
  // kBaseUnknown until the daemon has answered or the host has named a token.
  // Changed from that value only, and once.
  // True if callers may see tokens before the base is known.
  const bool has_late_base_;
  std::atomic<int64_t> token_base_;
  // Stands alone: relaxed everywhere.
  std::atomic<uint64_t> dropped_in_child_{0};

  // One above the highest token that somebody has recorded or asked about.
  // Sequentially consistent where it and watches_tokens_ must not both be
  // missed: Begin raises it, then loads the other; AwaitToken stores the other,
  // then loads it.
  std::atomic<int64_t> token_end_{0};
  std::atomic<bool> watches_tokens_{false};

  RecordingTime recording_time_;

  // Has a lock of its own, which may be taken while mu_ is held.
  RecordFilter filter_;

  mutable std::mutex mu_;
  // Recorders wait here: for a free slot, or for the client to close.
  std::condition_variable room_;
  // Open, Flush and Close wait here: for the queue or the state to change.
  std::condition_variable progress_;
  // The sender waits here for something to do.
  std::condition_variable work_;

  // All below: guarded by mu_.

  // The name that the daemon gave the run, once the stream was open. Only OnRun
  // changes it, before anything is recorded, so views of it stay valid.
  std::string run_;
  SlotPool pool_;
  DeliveryQueue queue_;
  Chunker chunker_;
  DeliveryLedger ledger_;
  Overflow overflow_;
  CallCounter call_counter_;
  AliasTable aliases_;
  Scratch scratch_;
  // Empty until there is some.
  std::span<std::byte> shared_memory_;
  // Revision of the newest policy of this connection; nothing without one.
  std::optional<uint64_t> policy_revision_;
  // Chunks of later versions are not made. Before the first connection nothing
  // is known, and nothing is left out.
  uint32_t chunk_version_ = chunk::kVersion;
  // A daemon has said that it takes digests of parts in place of their bytes.
  bool takes_digests_ = false;
  // Since one was last sent with its bytes. The first one is.
  uint32_t digest_count_ = kDigestsPerCheck - 1;
  // Of the connection that is being opened.
  uint32_t told_chunk_version_ = chunk::kExtrasVersion;
  // By sequence: those that the host has not ended.
  std::map<uint64_t, Reservation*> open_reservations_;
  // Reservations that were given up after records may have been named aliases
  // of them.
  uint64_t withdrawal_count_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t writer_count_ = 0;

  StreamState state_ = StreamState::kIdle;
  Clock::time_point retry_time_;
  Clock::time_point report_time_;
  // When the sender next looks for new tokens. While there are some at each
  // look, nobody wakes it for them.
  Clock::time_point look_time_;
  std::chrono::milliseconds look_interval_{0};
  int64_t reported_token_end_ = 0;
  uint64_t reported_ticks_ = 0;
  // WakeTime() when the sender began to wait.
  std::optional<Clock::time_point> wake_time_;
  Clock::time_point answer_deadline_;
  std::chrono::milliseconds backoff_;
  std::optional<Ended> ended_;
  bool was_refused_ = false;
  bool was_open_ = false;
  std::string stream_error_;
  uint64_t refused_chunk_count_ = 0;
  uint64_t reconnect_count_ = 0;
  // Conflicts of this connection, and of all connections before it.
  uint64_t conflict_count_ = 0;
  uint64_t former_conflict_count_ = 0;

  bool is_closing_ = false;
  bool must_stop_ = false;
  bool is_sender_over_ = false;
  // Latest time for the sender to end the stream in good order.
  Clock::time_point finish_deadline_;

  std::thread sender_;
};

}  // namespace msitd::client
