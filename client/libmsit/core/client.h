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

#include "client/libmsit/core/chunker.h"
#include "client/libmsit/core/copy/scratch.h"
#include "client/libmsit/core/delivery/delivery_ledger.h"
#include "client/libmsit/core/delivery/delivery_queue.h"
#include "client/libmsit/core/delivery/slot_pool.h"
#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/core/filter/alias_table.h"
#include "client/libmsit/core/filter/call_counter.h"
#include "client/libmsit/core/filter/record_filter.h"
#include "client/libmsit/core/fork_guard.h"
#include "client/libmsit/core/interruptible_wait.h"
#include "client/libmsit/core/launch.h"
#include "client/libmsit/core/overflow.h"
#include "client/libmsit/core/recording_time.h"
#include "client/libmsit/core/reservation.h"
#include "client/libmsit/core/status.h"
#include "client/libmsit/core/tensor_view.h"
#include "client/libmsit/core/token_reference.h"
#include "protos/capture/capture_policy.h"

namespace msitd::libmsit {

// For ClientOptions::buffer_bytes: the client determines its need.
inline constexpr uint64_t kBufferAuto = MSIT_BUFFER_AUTO;

// The options in msit_options; see there.
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
  // Empty: the result of LaunchOf.
  std::string job;
  // The endpoint of the daemon. Used only to distinguish daemons.
  std::string endpoint;

  // Upper limit for kBufferAuto. 0: a share of the memory of the node.
  uint64_t auto_bytes_max = 0;

  // How long the sender waits for the answer to an opening, and how long it
  // waits before it opens again: backoff_min at first, doubled after each
  // failure up to backoff_max.
  std::chrono::milliseconds answer_timeout{10'000};
  std::chrono::milliseconds backoff_min{100};
  std::chrono::milliseconds backoff_max{5'000};

  // Minimum time between two reports of the coverage. Nothing is reported while
  // nothing changes. At the end of the stream the rest is reported immediately.
  std::chrono::milliseconds report_interval{1'000};
};

// The counters in msit_counters; see there.
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

// Records tensors of one rank of one run. Implements the contract of msit.h.
//
// The problem: a recorder runs inside a training or inference process. It must
// not stall that process, even if the daemon or the disk stops responding, yet
// it should lose nothing that there is time to save. The host may be killed,
// fork, or handle signals at any time.
//
// The choices: writing each tensor synchronously would couple the host to the
// disk. An unbounded queue would never wait, but would take the host's memory
// as soon as the daemon falls behind. So the client copies each record into
// bounded memory and returns. The host chooses the behavior when that memory is
// full (Overflow): wait for a bounded time, drop the newest records or the
// oldest token, or keep summaries. Every loss is counted.
//
//   Record: filter, number the call, find a place   (recording thread, mu_)
//     -> copy the bytes into the slot               (recording thread,
//     unlocked)
//     -> seal, send, reopen after a failure         (sender thread, mu_)
//     -> acknowledged: release the slot             (transport's thread, mu_)
//
// Two decisions keep the host fast. First, one mutex protects all state, but it
// is held only to find a place; copies run in parallel without it, and the
// filter decides without any lock that a record is not requested. Second, slots
// are pieces of the memory shared with the daemon, if there is any, so the copy
// made by Record is the only one on this side, and the daemon can recover
// complete records if the process is killed.
//
// The costs: one copy per record and one sender thread per client. Memory for
// the slots is used even while the host is idle. A chunk that is not
// acknowledged keeps its slot and is sent again after a reconnect, so a daemon
// that stops accepting chunks eventually causes the overflow strategy to take
// effect.
//
// Throws std::bad_alloc or std::system_error if the system has no memory or
// threads left; the C interface catches both. Thread-safe.
class Client final : private TransportListener {
 public:
  // Opens a client. Waits for the daemon for at most `options.open_timeout`; 0:
  // does not wait.
  //
  // Errors: INVALID_ARGUMENT, UNAVAILABLE, REFUSED, INTERRUPTED.
  static Status Open(ClientOptions options,
                     std::unique_ptr<Transport, TransportDestroyer> transport,
                     std::unique_ptr<Client>* client);

  // Closes with a timeout of 0. In a forked child the object must be leaked
  // instead of destroyed.
  ~Client();

  // Records a tensor. If its source fails, the record is not accepted and is
  // not visible anywhere. Some parts of a tensor with several parts may have
  // been sent by then, and it counts as truncated; a smaller one is not
  // counted. The result is DROPPED in both cases. Each part of a source may
  // wait for `max_block`.
  Status Record(const TensorView& tensor);

  // See msit_reserve; `tensor.comes_later` must be true. Sets no reservation if
  // there is nothing to copy. The caller must end the reservation with Publish
  // while the client exists.
  Status Reserve(const TensorView& tensor,
                 std::unique_ptr<Reservation>* reservation);
  // See msit_publish.
  Status Publish(const Reservation& reservation, bool is_filled);
  // See msit_memory.
  std::vector<std::span<std::byte>> Memory() const;

  // See msit_enter and msit_leave. Record, Reserve and BeginCall are counted
  // anyway.
  void Enter() { recording_time_.Enter(); }
  void Leave() { recording_time_.Leave(); }

  // Counts a record as dropped after Record or Reserve has thrown.
  void CountDrop();

  // See msit_selects.
  bool Selects(int64_t token, std::string_view op, Io io);

  // See msit_level_of. An empty `device` stands for the client's device.
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

  // Seals the records so far, and returns a mark after them, without waiting.
  // HasDelivered returns whether everything before a mark is acknowledged or
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

  // One in this many digests is sent with its bytes, for the daemon to check.
  static constexpr uint32_t kDigestsPerCheck = 64;

  static constexpr int64_t kBaseUnknown = -1;

  enum class StreamState {
    kIdle,       // No connection; reopened at retry_time_.
    kOpening,    // Waiting for the first OnCommitted.
    kStreaming,  // Chunks are sent.
    kFinishing,  // Finish was called.
    kOver,       // Finished, or refused for good.
  };

  struct Ended {
    StreamEnd end = StreamEnd::kLost;
    std::string message;
  };

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

  Client(ClientOptions options,
         std::unique_ptr<Transport, TransportDestroyer> transport);

  void StartSender();
  Status WaitUntilOpen();

  // Within the client, tokens are relative to the token base, the token at
  // which the stream begins. A client that appends receives the base with the
  // daemon's first answer; records made before that are moved. If the host uses
  // the number of a token before the answer, or sets a token, the base is fixed
  // at 0. References do not fix the base; see token_reference.h. Documents of
  // token 0 describe the rank, so they neither fix the base nor move.
  //
  // Returns the base, or the base that applies unless the daemon answers
  // otherwise.
  int64_t TokenBase() const { return std::max(token_base_.load(), int64_t{0}); }
  // Fixes the base and returns it.
  int64_t FixTokenBase();
  // Converts a token of a caller, or the current token, to a relative token.
  // Fixes the token base if the caller has used a number.
  int64_t Counted(int64_t token);
  // Like Counted, for a query: does not fix the base. Records that the token
  // has begun if its number is known.
  int64_t CountedToAsk(int64_t token);
  // Returns whether the record describes the rank of a client whose own tokens
  // may move.
  bool IsTokenFixed(const TensorView& tensor) const {
    return options_.if_exists == IfExists::kAppend &&
           tensor.kind == RecordKind::kDocument && tensor.token == 0;
  }

  // Returns the level at which the tensor is recorded. Counts a tensor that is
  // not recorded.
  capture::Level TakeLevel(const TensorView& tensor, std::string_view device,
                           int64_t token);
  // Records a tensor, or reserves places for it.
  Status Take(const TensorView& tensor,
              std::unique_ptr<Reservation>* reservation);
  // Like Take, for a tensor that the policy requests at `level`.
  Status TakeAt(capture::Level level, const TensorView& tensor, int64_t token,
                std::unique_ptr<Reservation>* reservation);
  // How a record that is requested at `level` is kept, and whether it names
  // another record that has the same bytes.
  struct Plan {
    KeptLevel kept;
    std::optional<AliasTable::Original> original = {};
    // Value of withdrawal_count_ when `original` was found.
    uint64_t withdrawal_count = 0;
  };

  // Recording, in client.cc, client_record.cc and client_reserve.cc. These
  // functions must be called with mu_ locked. Those that receive the lock
  // release it temporarily.
  Plan TakePlan(capture::Level level, const TensorView& tensor, int64_t token);
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
  static bool FillPart(const TensorView& tensor, const chunk::RecordSpec& part,
                       std::span<const std::byte> held,
                       std::span<std::byte> out);
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
  // Withdraws and counts all reservations that the host has not ended. Returns
  // false if there are none.
  bool WithdrawOpenReservations();
  void GiveScratch(const Reservation& reservation);
  // Counts a record that fits into no chunk that the daemon accepts, and stores
  // the reason in stream_error_.
  Status LeaveOut(const chunk::RecordSpec& record);
  // Returns why FindPlace found no place.
  Status NoPlace(const std::optional<RoomWait>& wait) const;
  // Decides how much is kept of a record that is requested at `level`; the
  // result applies to all its parts.
  KeptLevel TakeKeptLevel(capture::Level level);
  // Drops the oldest token if it is lower than `token` and the overflow mode
  // requires it. Returns false if nothing was dropped.
  bool DropOldestToken(int64_t token);
  std::optional<int32_t> NumberCall(const TensorView& tensor, int64_t token);
  // Waits until all chunks pushed so far have left the queue. Returns false at
  // the deadline, and nullopt if the host interrupts.
  std::optional<bool> WaitForDelivery(Clock::time_point deadline,
                                      InterruptibleWait& wait, Lock& lock);
  // Waits until no reservation is open. Returns false if the host interrupts.
  bool WaitForReservations(Clock::time_point deadline, InterruptibleWait& wait,
                           Lock& lock);
  // Lets the sender end the stream properly, until `deadline` at most. Returns
  // false if the host interrupted this.
  bool StopSender(Clock::time_point deadline, InterruptibleWait& wait,
                  Lock& lock);
  Status ClosedOrForked() const;

  // Sending, in client_sender.cc, on the sender thread. These functions must be
  // called with mu_ locked. Those that receive the lock release it temporarily.
  void RunSender() noexcept;
  void Send(Lock& lock);
  // Performs one step. Returns false if there is nothing to do until the next
  // wake-up.
  bool Advance(Lock& lock);
  bool AdvanceStream(Lock& lock);
  bool MustFinishFirst() const;
  void OpenStream(Lock& lock);
  // Returns the result of Transport::Stop.
  bool StopStream(Lock& lock);
  void HandleEnd(Lock& lock);
  void RetryLater(std::string message);
  void EndForGood(std::string message);
  void Drop(Slot* slot);
  void DropQueued();
  // Drops all chunks when the sender ends. Chunks with open reservations keep
  // their memory.
  void DropForGood();
  // Returns when the open chunks must be sealed; nullopt if they may stay open.
  std::optional<Clock::time_point> LingerTime() const;
  // Records that `token` has begun. Called by recording threads, without mu_.
  void Begin(int64_t token);
  // Returns whether a token has begun that was not reported to the daemon.
  bool HasBegunTokens() const;
  // Makes the next new token wake the sender, which does not poll for tokens
  // until then. Returns false if one has begun already.
  bool AwaitToken();
  // Returns whether recording time was spent that the last report does not
  // include.
  bool HasUnreportedTime() const;
  // Reports counts, times and tokens to the daemon.
  void Report(Lock& lock);
  // Returns when the next report is due; nullopt if everything has been
  // reported. In that case any change wakes the sender (WakeInTime, TakeLevel).
  std::optional<Clock::time_point> ReportTime();
  std::optional<Clock::time_point> WakeTime();
  // Wakes the sender if its wake-up time has changed.
  void WakeInTime();

  // TransportListener. Called on threads of the transport.
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
  // Number of this recording of the rank in this process.
  const uint32_t recording_;
  const std::string job_;
  const uint64_t stream_id_;
  // Maximum memory of the slots.
  const uint64_t buffer_bytes_;
  // Called only by the sender thread.
  const std::unique_ptr<Transport, TransportDestroyer> transport_;

  // Relative to the token base, like token_end_ and every token that is passed
  // between functions of this class.
  std::atomic<int64_t> token_{0};
  // token_base_ is kBaseUnknown until the daemon has answered or the host has
  // used the number of a token. It changes from that value only once.
  // has_late_base_: callers may see tokens before the base is known.
  const bool has_late_base_;
  std::atomic<int64_t> token_base_;
  // Independent of all other state, therefore relaxed everywhere.
  std::atomic<uint64_t> dropped_in_child_{0};

  // One above the highest token that was recorded or queried. Sequentially
  // consistent because either Begin or AwaitToken must see the other's store.
  // Begin raises token_end_, then loads watches_tokens_. AwaitToken stores
  // watches_tokens_, then loads token_end_.
  std::atomic<int64_t> token_end_{0};
  std::atomic<bool> watches_tokens_{false};

  RecordingTime recording_time_;

  // Has a lock of its own, which may be acquired while mu_ is held.
  RecordFilter filter_;

  mutable std::mutex mu_;
  // Recording threads wait here for a free slot or for the client to close.
  std::condition_variable room_;
  // Open, Flush and Close wait here for the queue or the state to change.
  std::condition_variable progress_;
  // The sender waits here for work.
  std::condition_variable work_;

  // The members below are guarded by mu_.

  // The name of the run, as assigned by the daemon when the stream was opened.
  // Changed only by OnRun, before anything is recorded, so views of it stay
  // valid.
  std::string run_;
  SlotPool pool_;
  DeliveryQueue queue_;
  Chunker chunker_;
  DeliveryLedger ledger_;
  Overflow overflow_;
  CallCounter call_counter_;
  AliasTable aliases_;
  Scratch scratch_;
  // Empty until there is shared memory.
  std::span<std::byte> shared_memory_;
  // Revision of the newest policy of this connection; nullopt without one.
  std::optional<uint64_t> policy_revision_;
  // The highest chunk version that the daemon accepts. Records that need a
  // later one are left out. Before the first connection the version is unknown,
  // and no record is left out.
  uint32_t chunk_version_ = chunk::kVersion;
  // True if a daemon has announced that it accepts digests of parts in place of
  // their bytes.
  bool takes_digests_ = false;
  // Digests since one was last sent with its bytes. The first one is sent with
  // bytes.
  uint32_t digest_count_ = kDigestsPerCheck - 1;
  // For the connection that is being opened.
  uint32_t told_chunk_version_ = chunk::kExtrasVersion;
  // Reservations that the host has not ended, by sequence.
  std::map<uint64_t, Reservation*> open_reservations_;
  // Number of reservations that were given up after records may have become
  // their aliases.
  uint64_t withdrawal_count_ = 0;
  uint64_t next_sequence_ = 0;
  uint64_t writer_count_ = 0;

  StreamState state_ = StreamState::kIdle;
  Clock::time_point retry_time_;
  Clock::time_point report_time_;
  // When the sender next polls for new tokens. While each poll finds some,
  // recording threads do not wake the sender for them.
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
  // Time limit for the sender to end the stream properly.
  Clock::time_point finish_deadline_;

  std::thread sender_;
};

}  // namespace msitd::libmsit
