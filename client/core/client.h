// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "client/core/call_counter.h"
#include "client/core/chunker.h"
#include "client/core/delivery/delivery_ledger.h"
#include "client/core/delivery/delivery_queue.h"
#include "client/core/delivery/slot_pool.h"
#include "client/core/delivery/transport.h"
#include "client/core/fork_guard.h"
#include "client/core/interruptible_wait.h"
#include "client/core/overflow.h"
#include "client/core/record_filter.h"
#include "client/core/status.h"
#include "client/core/tensor_view.h"
#include "protos/capture/capture_policy.h"

namespace msitd::client {

// Plain values of msit_options; see there.
struct ClientOptions {
  std::string run;
  int32_t rank = 0;
  int32_t world_size = 1;
  OverflowMode overflow = OverflowMode::kBlock;
  std::chrono::microseconds max_block{std::chrono::seconds(1)};
  uint64_t buffer_bytes = uint64_t{64} << 20;
  std::chrono::microseconds linger{std::chrono::milliseconds(5)};
  std::chrono::microseconds open_timeout{std::chrono::seconds(5)};
  std::string device = "cpu:0";
  std::string user_agent;
  InterruptCheck interrupt;
  IfExists if_exists = IfExists::kFail;
  // Empty: what LaunchOf says.
  std::string job;

  // How long the sender waits for an answer to an opening, and how long before
  // it opens again: doubled after each failure, from the first to the last.
  std::chrono::milliseconds answer_timeout{10'000};
  std::chrono::milliseconds backoff_min{100};
  std::chrono::milliseconds backoff_max{5'000};

  // How often the daemon is told what became of the records, if that changes;
  // at the end of the stream it is told in any case.
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
};

// Records tensors of one rank of one run: the implementation of msit.h, whose
// contract it has. Thread-safe.
//
// Recording threads copy into slots of the open chunk; one sender thread seals
// chunks that linger, hands them to the transport, opens the stream again when
// it breaks, and drops chunks that the daemon refuses.
//
// Fails by throwing std::bad_alloc or std::system_error where the system has
// no memory or threads left; the C interface catches those.
class Client final : private TransportListener {
 public:
  // Waits for the daemon up to `options.open_timeout`, unless that is zero.
  //
  // Errors: INVALID_ARGUMENT, UNAVAILABLE, REFUSED, INTERRUPTED.
  static Status Open(ClientOptions options,
                     std::unique_ptr<Transport, TransportDestroyer> transport,
                     std::unique_ptr<Client>* client);

  // Closes with a timeout of 0. In a forked child the object must not be
  // destroyed, but left.
  ~Client();

  Status Record(const TensorView& tensor);
  // Counts a record that Record could not even count because it threw.
  void CountDrop();

  // See msit_selects.
  bool Selects(int64_t token, std::string_view op, Io io);

  int64_t token() const { return token_.load(std::memory_order_relaxed); }
  int64_t NextToken();
  Status SetToken(int64_t token);
  Status BeginCall(int64_t token, std::string_view op, int32_t* call);

  Status Flush(std::chrono::microseconds timeout);
  Status Close(std::chrono::microseconds timeout);

  ClientCounters counters() const;
  std::string stream_error() const;
  std::string run() const;
  bool in_forked_child() const { return fork_guard_.in_child(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

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

  // A place for a part, and whether to find it gave the sender work, of which
  // it is still to be told.
  struct Found {
    Chunker::Place place;
    bool wakes_sender = false;
  };

  // The wait of one record for room.
  struct RoomWait {
    Clock::time_point deadline;
    InterruptibleWait wait;
    bool was_interrupted = false;
  };

  Client(ClientOptions options,
         std::unique_ptr<Transport, TransportDestroyer> transport);

  void StartSender();
  Status WaitUntilOpen();

  // How much of the tensor is recorded; counts one that is not.
  capture::Level TakeLevel(const TensorView& tensor, std::string_view device,
                           int64_t token);
  // Records what is asked for at `level`.
  Status RecordAt(capture::Level level, const TensorView& tensor,
                  int64_t token);

  // Recording, in client.cc. All take mu_ as locked; those that are given the
  // lock release it for a while.
  Status RecordParts(const TensorView& tensor, Keep keep,
                     chunk::RecordSpec& part, Lock& lock);
  // Nothing if there is no room until the deadline in `*wait`, which is set
  // when the record begins to wait, if the host interrupts, or if other parts
  // of the tensor were dropped.
  std::optional<Found> FindPlace(const chunk::RecordSpec& part, Keep keep,
                                 std::optional<RoomWait>* wait, Lock& lock);
  // Why FindPlace found nothing.
  Status NoPlace(const std::optional<RoomWait>& wait) const;
  // What is kept of all parts of a record that is asked for at `level`.
  Keep TakeKeep(capture::Level level);
  // Makes room for a record of `token` at the cost of the oldest token below
  // it, if that is the overflow behaviour; false if there is nothing to drop.
  bool DropOldestToken(int64_t token);
  std::optional<int32_t> NumberCall(const TensorView& tensor, int64_t token);
  // Nothing if the host interrupts; false at the deadline.
  std::optional<bool> WaitForDelivery(Clock::time_point deadline,
                                      InterruptibleWait& wait, Lock& lock);
  // Lets the sender end the stream in good order until `deadline`, or until the
  // host interrupts: then it returns false.
  bool StopSender(Clock::time_point deadline, InterruptibleWait& wait,
                  Lock& lock);
  Status ClosedOrForked() const;

  // Sending, in client_sender.cc, on the sender thread. All take mu_ as
  // locked; those that are given the lock release it for a while.
  void RunSender() noexcept;
  void Send(Lock& lock);
  // Does one step; false if there is nothing to do but wait.
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
  // When the open chunk has lingered long enough; nothing if it may stay.
  std::optional<Clock::time_point> LingerTime() const;
  // Takes note that `token` has begun.
  void Begin(int64_t token);
  // The daemon has not been told of all tokens that have.
  bool HasBegunTokens() const;
  // Tells the daemon counts and tokens.
  void Report(Lock& lock);
  // When the daemon is to be told the counts; nothing if it knows them, and
  // whoever changes them will wake the sender (WakeInTime, TakeLevel).
  std::optional<Clock::time_point> ReportTime();
  std::optional<Clock::time_point> WakeTime();
  // Wakes the sender if it waits for another time than it should now.
  void WakeInTime();

  // TransportListener, on threads of the transport.
  void OnSharedMemory(std::span<std::byte> memory) override;
  void OnCapturePolicy(std::string_view policy) override;
  void OnRun(std::string_view run) override;
  void OnConflicts(uint64_t conflict_count) override;
  void OnCommitted(uint64_t committed_count) override;
  void OnEnd(StreamEnd end, std::string_view message) override;

  const ForkGuard fork_guard_;
  const ClientOptions options_;
  const std::string job_;
  const uint64_t stream_id_;
  // As many whole slots as the options ask for.
  const uint64_t buffer_bytes_;
  // Its calls are the sender thread's.
  const std::unique_ptr<Transport, TransportDestroyer> transport_;

  // Each stands for itself: relaxed everywhere.
  std::atomic<int64_t> token_{0};
  // Behind the highest token that somebody has recorded or asked about.
  std::atomic<int64_t> token_end_{0};
  std::atomic<uint64_t> dropped_in_child_{0};

  // Has a lock of its own, which may be taken under mu_.
  RecordFilter filter_;

  mutable std::mutex mu_;
  // A slot became free or the client is closing: recorders.
  std::condition_variable room_;
  // The queue became shorter or the state changed: Open, Flush, Close.
  std::condition_variable progress_;
  // There is something to do: the sender.
  std::condition_variable work_;

  // All below: guarded by mu_.
  // As the daemon calls it, once the stream was open. Changed by OnRun only,
  // before anything was recorded, so that views of it stay valid.
  std::string run_;
  SlotPool pool_;
  DeliveryQueue queue_;
  Chunker chunker_;
  DeliveryLedger ledger_;
  Overflow overflow_;
  CallCounter call_counter_;
  // Of the newest policy that came over this connection; nothing without one.
  std::optional<uint64_t> policy_revision_;
  uint64_t next_sequence_ = 0;
  uint64_t writer_count_ = 0;

  StreamState state_ = StreamState::kIdle;
  Clock::time_point retry_time_;
  Clock::time_point report_time_;
  // When the sender looks for new tokens again, of which nobody wakes it.
  Clock::time_point look_time_;
  std::chrono::milliseconds look_interval_{0};
  int64_t told_token_end_ = 0;
  // What WakeTime was when the sender began to wait.
  std::optional<Clock::time_point> wake_time_;
  Clock::time_point answer_deadline_;
  std::chrono::milliseconds backoff_;
  std::optional<Ended> ended_;
  bool was_refused_ = false;
  bool was_open_ = false;
  std::string stream_error_;
  uint64_t refused_chunk_count_ = 0;
  uint64_t reconnect_count_ = 0;
  // Over this connection, and over those before.
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
