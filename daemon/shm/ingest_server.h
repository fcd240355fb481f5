// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/fair_shares.h"
#include "daemon/access/live_policy.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/log/log.h"
#include "daemon/shm/event_queue.h"
#include "daemon/shm/producer_session.h"
#include "protos/base/error_reason.h"
#include "protos/os/unique_fd.h"

namespace msitd::shm {

struct IngestServerOptions {
  std::string socket_path;

  // The largest arena that a producer may have.
  uint64_t arena_bytes_max = uint64_t{256} << 20;

  // Further producers are refused with RESOURCE_EXHAUSTED after their hello.
  // Divided among callers by access::FairShares.
  size_t sessions_max = 256;

  // A producer that has not sent its hello by then is refused.
  std::chrono::milliseconds hello_timeout{5'000};

  // Maximum number of connected producers without a hello. If there are more,
  // the oldest is refused early, so that silent producers cannot keep others
  // out. The number is large enough that a producer that sends its hello
  // immediately is served, however many others connect in the same turns.
  size_t greetings_max = 64;

  // Determines which callers may write. Must outlive the server. Null for the
  // default policy.
  const access::LivePolicy* policy = nullptr;
};

// The transport for ranks on this node, which share memory with the daemon.
// Listens on the ingest socket and serves all sessions on one thread, which
// sleeps while there is nothing to do.
//
// Thread-compatible.
class IngestServer {
 public:
  // Runs a task that may block, on another thread.
  using TaskRunner =
      std::function<absl::Status(absl::AnyInvocable<void()> task)>;

  // Starts listening immediately. `sink` and everything that `run_task` uses
  // must outlive the server. The directory of the socket must exist and contain
  // no file at the socket's path. If `listener` is valid, it is already
  // listening at this path and is used to accept connections; the server does
  // not remove its file.
  //
  // Errors: those of the socket.
  static absl::StatusOr<std::unique_ptr<IngestServer>> Start(
      const IngestServerOptions& options, ingest::ChunkSink& sink,
      TaskRunner run_task, UniqueFd listener = {});

  // Calls Stop if it was not called.
  ~IngestServer();
  IngestServer(const IngestServer&) = delete;
  IngestServer& operator=(const IngestServer&) = delete;

  // Returns the kind of pages that newly touched memory consists of: `huge` or
  // `small`.
  static std::string MemoryPages();

  // Whether the server created the socket file.
  bool owns_socket() const { return owns_socket_file_; }
  // The producers that are connected. Thread-safe.
  size_t session_count() const { return session_count_; }

  // Ends the sessions of callers that may no longer write by the policy in
  // force. Chunks that the daemon has accepted are committed; the others are
  // refused. Must be called after each change of the policy. Thread-safe.
  void ApplyPolicy() { events_.Post({0, EventQueue::Kind::kPolicy}); }

  // Removes the socket file if the server created it, and returns after all
  // sessions have ended. The pipeline must have been drained before, which ends
  // the sessions' streams.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  // The descriptor that an epoll event refers to.
  enum class Source : uint64_t { kSocket, kData, kProcess };

  IngestServer(const IngestServerOptions& options, ingest::ChunkSink& sink,
               TaskRunner run_task);

  absl::Status Bind();
  absl::Status Listen();
  bool Watch(int fd, uint32_t events, uint64_t data);
  void Unwatch(int fd);

  void Serve();
  int TimeoutMs() const;
  void Accept();
  void Greet(UniqueFd socket);
  // Refuses the oldest session that has not sent its hello.
  void TurnAway(const absl::Status& status, ErrorReason reason);
  void RefuseSilent();
  void HandleEvents();
  void JudgeSessions();
  absl::StatusOr<access::Caller> Admit(const access::Peer& peer) const;
  void HandleSource(uint64_t data);
  // Counts a wake-up by a producer, and pauses a producer that caused too many
  // wake-ups without a chunk.
  void CountWake(uint64_t id);
  void EndRests();
  // Performs the actions that the state of the session requires after any
  // event.
  void Settle(ProducerSession& session, uint64_t id);
  void StartOpening(ProducerSession& session);
  void Remove(uint64_t id);

  const IngestServerOptions options_;
  ingest::ChunkSink& sink_;
  const TaskRunner run_task_;
  EventQueue events_;
  UniqueFd epoll_;
  UniqueFd listener_;
  bool owns_socket_file_ = false;
  gid_t socket_group_ = 0;
  log::Limiter log_limiter_;

  // The members below are accessed only by the thread.
  struct Held {
    std::unique_ptr<ProducerSession> session;
    bool watches_socket = false;
    bool watches_data = false;
    bool is_opening = false;  // Its opening was started.
    bool is_resting = false;  // Its data is temporarily not watched.
    int idle_wake_count = 0;  // Consecutive idle wake-ups.
    access::FairShares::Grant share;
  };
  access::FairShares session_shares_;
  std::map<uint64_t, Held> sessions_;
  std::atomic<size_t> session_count_ = 0;
  uint64_t last_id_ = 0;
  // Sessions with more chunks than they could offer in their turn.
  std::set<uint64_t> again_;
  // In the order of their deadlines.
  std::deque<std::pair<Clock::time_point, uint64_t>> greetings_;
  // Paused sessions and the ends of their pauses.
  std::deque<std::pair<Clock::time_point, uint64_t>> rests_;
  bool is_stopping_ = false;
  // When to accept again after no descriptor was free for a producer.
  Clock::time_point accept_time_;
  bool watches_listener_ = false;

  std::thread thread_;
};

}  // namespace msitd::shm
