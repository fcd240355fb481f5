// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/peer.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/shm/event_queue.h"
#include "protos/os/unique_fd.h"
#include "protos/shm/ring_reader.h"
#include "protos/shm/session_socket.h"
#include "protos/status/mutex.h"

namespace msitd::shm {

// The session of one producer on the ingest socket: its packets, its ring, and
// its end of a stream of the pipeline.
//
//   greeting --hello--> opening --OnOpened--> streaming --> ending --> over
//
// The problem: a rank on the same node produces large amounts of data, and it
// is not trusted. It may be broken or hostile, and it may die at any time.
//
// The choices: sending payloads through the socket would cost two copies and a
// system call per chunk. Instead, the producer lays out its chunks in an arena
// of shared memory, and the pipeline writes them to the disk from there. The
// socket carries only the control packets: hello, policy, and notifications. An
// eventfd tells the server that chunks were published, so that one thread can
// wait for all sessions with epoll.
//
// The costs of sharing memory with an untrusted process:
// - The producer can change bytes at any time. The head of a chunk is therefore
//   copied before it is checked, and values in the ring are loaded once and
//   then checked.
// - No operation on a file that the producer also holds may block the thread.
//   Sockets are used with MSG_DONTWAIT. The eventfd is watched edge-triggered
//   and never read.
// - A slot stays occupied until its chunk is durable, so the producer must wait
//   when the disk is slow.
// - When a producer dies, the chunks that it had begun are still in the arena.
//   They are recovered from their drafts and committed like published chunks.
// - Each session has only a bounded turn, so that a busy producer cannot starve
//   the others.
//
// Whatever a producer does, it can at worst end its own session.
//
// Thread-compatible: used on the thread of the server, except for Open and the
// calls from the pipeline. The server deletes the session when it is over.
class ProducerSession final : private ingest::StreamPeer {
 public:
  enum class State {
    kGreeting,   // The hello has not been received.
    kOpening,    // Open must run or is running.
    kStreaming,  // Chunks and packets are received.
    kEnding,  // Nothing is received; the pipeline has not ended the stream yet.
    kOver,
  };

  // `sink` and `events` must outlive the session.
  ProducerSession(uint64_t id, UniqueFd socket, access::Peer peer,
                  access::Caller caller, ingest::ChunkSink& sink,
                  EventQueue& events)
      : id_(id),
        socket_(std::move(socket)),
        peer_(std::move(peer)),
        caller_(std::move(caller)),
        process_(access::WatchProcess(peer_)),
        sink_(sink),
        events_(events) {}

  ~ProducerSession() { DiscardPackets(socket_.get()); }

  const access::Caller& caller() const { return caller_; }
  const access::Peer& peer() const { return peer_; }
  State state() const { return state_; }
  // Returns whether packets should be read from the socket.
  bool reads_packets() const {
    return state_ == State::kGreeting ||
           (state_ == State::kStreaming && !is_complete_);
  }
  int socket() const { return socket_.get(); }
  // Returns -1 if the process cannot be watched.
  int process_fd() const { return process_.get(); }
  // Must be watched edge-triggered and never read. Requires a ring.
  int data_ready_fd() const { return ring_->data_ready_fd(); }

  // Returns whether published chunks have not been offered yet. Requires a
  // ring.
  bool has_data() const { return ring_->HasNext(); }

  // Reads the packets that have arrived.
  void OnPackets();

  // Opens the stream that the hello requests, with the arena that the producer
  // passed or with a new one of at most `arena_bytes_max` bytes. Blocks. Runs
  // on another thread while the session is opening, and posts kOpened when it
  // ends.
  void Open(uint64_t arena_bytes_max);
  void OnOpened();

  // Offers published chunks up to a limit. Returns true if it should be called
  // again without waiting for an event.
  bool OnData();

  // Called when the pipeline has room again.
  void OnRoom() { is_paused_ = false; }

  // Called when the producer cannot continue the session. Chunks that it has
  // published are still accepted.
  void OnLeft();

  // Called when the producer's process has ended. Chunks that it had begun are
  // also accepted.
  void OnDied();

  // Called when the pipeline has ended the stream.
  void OnEnded();

  // Called when the caller may no longer write. Accepts no more chunks, and
  // reports `status` to the producer. Has no effect on a session that ends.
  void Revoke(const absl::Status& status);

  // Reports `status` to the producer and ends a session that has no stream.
  void Refuse(const absl::Status& status);

 private:
  struct Opened {
    ingest::StreamHandle stream;
    std::string run;
    std::shared_ptr<RingReader> ring;
    uint64_t committed_count = 0;
    std::string capture_policy;
  };

  void HandlePacket(Packet& packet);
  void HandleHello(const SessionHello& hello, Packet& packet);
  absl::StatusOr<Opened> TryOpen(uint64_t arena_bytes_max);
  bool Welcome(const Opened& opened);
  // Returns false if the producer does not read.
  bool SendPolicy(const std::string& policy);
  std::unique_ptr<ingest::Lease> NewLease() const;
  void LogLost(const absl::Status& status) const;
  // Returns whether the producer itself has closed the socket.
  bool WasClosed() const;
  // Offers the next chunk that a dead producer had begun; nullopt if there are
  // no more.
  std::optional<ingest::ChunkSink::Offered> OfferDraft();
  // Returns the status of a stream that ends after all its chunks were
  // accepted.
  absl::Status TakenStatus() const;
  // Accepts no more chunks. The end of the stream follows.
  void EndStream(const absl::Status& status);

  // Called by the pipeline.
  void Commit(uint64_t count, uint64_t conflict_count) override;
  void SetCapturePolicy(const std::string& policy) override;
  void Resume() override;
  void End(const absl::Status& status) override;

  const uint64_t id_;
  const UniqueFd socket_;
  const access::Peer peer_;
  const access::Caller caller_;
  const UniqueFd process_;
  ingest::ChunkSink& sink_;
  EventQueue& events_;

  State state_ = State::kGreeting;
  ingest::StreamSpec spec_;
  uint64_t wanted_arena_bytes_ = 0;
  UniqueFd offered_arena_;
  // Set by Open and consumed by OnOpened.
  std::optional<absl::StatusOr<Opened>> opened_;

  // Not OK if the caller lost its role while the stream was being opened.
  absl::Status revoked_;

  // Set before the first Offer; the pipeline uses it only after that.
  ingest::StreamHandle stream_;
  // Shared with threads that report on the stream.
  std::shared_ptr<RingReader> ring_;
  bool has_new_arena_ = false;
  bool is_paused_ = false;    // The pipeline has no room.
  bool is_complete_ = false;  // No more chunks will be published.
  bool has_left_ = false;     // The producer left without announcing it.
  bool is_renamed_ = false;   // The run is not the requested one.
  bool is_dead_ = false;      // The producer seems to have died.
  // Of a dead producer: the drafts that remain, and the sequence number of the
  // next one.
  std::optional<std::deque<std::span<const std::byte>>> drafts_;
  uint64_t next_draft_sequence_ = 0;
  bool is_ended_ = false;  // The pipeline makes no more calls.

  // The socket was shut down on this side, by the pipeline's thread.
  std::atomic<bool> is_cut_off_ = false;

  Mutex mu_;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::shm
