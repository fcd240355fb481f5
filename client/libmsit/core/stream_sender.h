// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "client/libmsit/core/client_options.h"
#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/core/filter/record_filter.h"
#include "client/libmsit/core/interruptible_wait.h"
#include "client/libmsit/core/launch.h"
#include "client/libmsit/core/outgoing_chunks.h"
#include "client/libmsit/core/recording_time.h"
#include "client/libmsit/core/report_schedule.h"
#include "client/libmsit/core/stream_tokens.h"
#include "protos/chunk/chunk_format.h"

namespace msitd::libmsit {

// The state of a stream that matters to its client.
struct StreamStatus {
  // The name of the run, as assigned by the daemon when the stream was opened.
  // Changes only before anything is recorded, so views of it stay valid.
  std::string run;
  // True once the stream has been open.
  bool was_open = false;
  // True if the daemon has refused the stream for good.
  bool was_refused = false;
  // True once the sender has dropped and counted what was left.
  bool has_ended = false;
  // Why the stream is not open, or a record was not sent. Empty if all is well.
  std::string error = {};
  // The highest chunk version that the daemon accepts. Records that need a
  // later one are left out. Before the first connection the version is unknown,
  // and no record is left out.
  uint32_t chunk_version = chunk::kVersion;
  // True if a daemon has announced that it accepts digests of parts in place of
  // their bytes.
  bool takes_digests = false;
  uint64_t refused_chunk_count = 0;
  uint64_t reconnect_count = 0;
};

// Sends the chunks of a client to its daemon, on a thread of its own: opens the
// stream, sends what is sealed, releases what is acknowledged, and opens the
// stream again after a failure.
//
//   idle --Open--> opening --OnCommitted--> streaming --Finish--> finishing
//    ^               |                          |                    |
//    \---- retry ----+----------- lost ---------/        refused, or finished:
//                                                                  over
//
// The state is guarded by the lock of the chunks. Unless stated otherwise,
// public functions must be called with it held. The transport is called without
// it, and only on the sender thread.
class StreamSender final : private TransportListener {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = OutgoingChunks::Lock;

  struct Stream {
    uint64_t stream_id = 0;
    // Memory that the client would like to share with the daemon.
    uint64_t buffer_bytes = 0;
  };

  // All references must stay valid as long as the object.
  StreamSender(const ClientOptions& options, const Stream& stream,
               OutgoingChunks& chunks, StreamTokens& tokens,
               RecordFilter& filter, const RecordingTime& recording_time,
               Transport& transport);
  StreamSender(const StreamSender&) = delete;
  StreamSender& operator=(const StreamSender&) = delete;

  // Starts the thread. Must be called once, without the lock.
  void Start();

  // Lets the sender end the stream properly, until `deadline` at most, and
  // joins the thread. Returns false if the host interrupted this. Releases
  // `lock` temporarily.
  bool Stop(Clock::time_point deadline, InterruptibleWait& wait, Lock& lock);

  // Records that `token` has begun, to report it. Must be called without the
  // lock, which it acquires only if the sender waits for this token.
  void Begin(int64_t token);

  // Wakes the sender if its wake-up time has changed, because something was
  // counted that it must report.
  void WakeInTime();

  const StreamStatus& status() const { return status_; }
  // True if nothing is sent any more.
  bool is_over() const { return state_ == State::kOver; }
  // Conflicts of all connections; see TransportListener::OnConflicts.
  uint64_t conflict_count() const {
    return former_conflict_count_ + connection_.conflict_count;
  }
  // Sets StreamStatus::error unless there is one.
  void SetError(const std::string& error) {
    if (status_.error.empty()) status_.error = error;
  }

 private:
  enum class State {
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

  // The current connection, as reported by the transport.
  struct Connection {
    Clock::time_point answer_deadline = {};
    // Revision of the newest policy; nullopt without one.
    std::optional<uint64_t> policy_revision = {};
    uint32_t chunk_version = chunk::kExtrasVersion;
    uint64_t conflict_count = 0;
    // Set when it has ended; later events are ignored.
    std::optional<Ended> ended = {};
  };

  // The functions below run on the sender thread. Those that receive the lock
  // release it temporarily.
  void Run() noexcept;
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
  // Reports counts, times and tokens to the daemon.
  void Report(Lock& lock);

  // Both are also called by WakeInTime.
  std::optional<Clock::time_point> ReportTime() {
    return reports_.ReportTime(must_stop_ && chunks_.empty());
  }
  std::optional<Clock::time_point> WakeTime();

  // Handles the first OnCommitted of a connection.
  void BeginStreaming();

  // TransportListener. Called on threads of the transport, without the lock.
  void OnSharedMemory(std::span<std::byte> memory) override;
  void OnCapturePolicy(std::string_view policy) override;
  void OnRun(std::string_view run) override;
  void OnChunkVersion(uint32_t version) override;
  void OnFirstToken(uint64_t token) override;
  void OnConflicts(uint64_t conflict_count) override;
  void OnCommitted(uint64_t committed_count) override;
  void OnEnd(StreamEnd end, std::string_view message) override;

  const ClientOptions& options_;
  const Stream stream_;
  const RecordedRank recorded_rank_;
  // Number of this recording of the rank in this process.
  const uint32_t recording_;
  const std::string job_;
  OutgoingChunks& chunks_;
  StreamTokens& tokens_;
  RecordFilter& filter_;
  Transport& transport_;

  StreamStatus status_;
  State state_ = State::kIdle;
  Connection connection_;
  ReportSchedule reports_;
  // WakeTime() when the sender began to wait.
  std::optional<Clock::time_point> wake_time_;
  Clock::time_point retry_time_;
  std::chrono::milliseconds backoff_;
  // Conflicts of the connections before the current one.
  uint64_t former_conflict_count_ = 0;

  bool must_stop_ = false;
  // Time limit for the sender to end the stream properly.
  Clock::time_point finish_deadline_;

  std::thread thread_;
};

}  // namespace msitd::libmsit
