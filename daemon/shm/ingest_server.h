// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include "daemon/access/access_policy.h"
#include "daemon/access/fair_shares.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/log/log.h"
#include "daemon/shm/event_queue.h"
#include "daemon/shm/producer_session.h"
#include "protos/base/error_reason.h"
#include "protos/os/unique_fd.h"

namespace msitd::shm {

struct IngestServerOptions {
  std::string socket_path;

  // The largest arena that a producer gets.
  uint64_t arena_bytes_max = uint64_t{256} << 20;

  // More producers that have said hello are turned away with
  // RESOURCE_EXHAUSTED. Divided among callers as access::FairShares says.
  size_t sessions_max = 256;

  // A producer that has not said hello by then is turned away.
  std::chrono::milliseconds hello_timeout{5'000};

  // Producers that may be without a hello at a time. If there are more, the
  // oldest is turned away earlier, so that silent ones keep nobody out. Enough
  // for a producer that speaks at once to be heard, however many others come in
  // the same turns.
  size_t greetings_max = 64;

  // Says who may write.
  access::AccessPolicy policy = {};
};

// The transport for the ranks of this node, which share memory with the
// daemon: listens on the ingest socket and serves all sessions on one thread,
// which sleeps while nothing happens.
//
// Thread-compatible.
class IngestServer {
 public:
  // Runs a task that may block on another thread.
  using TaskRunner =
      std::function<absl::Status(absl::AnyInvocable<void()> task)>;

  // Listens at once. `sink` and what `run_task` needs outlive the server. The
  // directory of the socket exists, and nothing is at its path. If there is a
  // `listener`, it listens at this path already and is the one to accept from;
  // its file stays.
  //
  // Errors: those of the socket.
  static absl::StatusOr<std::unique_ptr<IngestServer>> Start(
      const IngestServerOptions& options, ingest::ChunkSink& sink,
      TaskRunner run_task, UniqueFd listener = {});

  // Stops if nobody has.
  ~IngestServer();
  IngestServer(const IngestServer&) = delete;
  IngestServer& operator=(const IngestServer&) = delete;

  // The kind of pages that memory consists of which is touched now: `huge` or
  // `small`.
  static std::string MemoryPages();

  // Removes the socket, if it made it, and returns when all sessions are over.
  // The pipeline has been drained before, which ended their streams.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  // What an epoll event is about.
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
  // Ends the oldest session that greets.
  void TurnAway(const absl::Status& status, ErrorReason reason);
  void RefuseSilent();
  void HandleEvents();
  void HandleSource(uint64_t data);
  // Counts that a producer woke the thread, and pauses one that did so too
  // often for nothing.
  void CountWake(uint64_t id);
  void EndRests();
  // Does what the state of the session asks for after anything happened to it.
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

  // All below belongs to the thread.
  struct Held {
    std::unique_ptr<ProducerSession> session;
    bool watches_socket = false;
    bool watches_data = false;
    bool is_opening = false;  // Its opening was started.
    bool is_resting = false;  // Its data is not watched for a while.
    int idle_wake_count = 0;  // In a row.
    access::FairShares::Grant share;
  };
  access::FairShares session_shares_;
  std::map<uint64_t, Held> sessions_;
  uint64_t last_id_ = 0;
  // Sessions that have more chunks than fitted into their turn.
  std::set<uint64_t> again_;
  // In the order of their deadlines.
  std::deque<std::pair<Clock::time_point, uint64_t>> greetings_;
  // Sessions that rest, and until when.
  std::deque<std::pair<Clock::time_point, uint64_t>> rests_;
  bool is_stopping_ = false;
  // When to accept again after no descriptor was left for a producer.
  Clock::time_point accept_time_;
  bool watches_listener_ = false;

  std::thread thread_;
};

}  // namespace msitd::shm
