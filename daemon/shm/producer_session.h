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

// One producer on the ingest socket: its packets, its ring, and its end of a
// stream of the pipeline. The producer is not trusted; whatever it does ends
// its own session at worst.
//
//   greeting --hello--> opening --OnOpened--> streaming --> ending --> over
//
// Thread-compatible, on the thread of the server, but for Open and the calls
// of the pipeline. Deleted by the server once it is over.
class ProducerSession final : private ingest::StreamPeer {
 public:
  enum class State {
    kGreeting,   // The hello has not come.
    kOpening,    // Open is to run, or runs.
    kStreaming,  // Chunks and packets come in.
    kEnding,     // Nothing comes in; the pipeline has not ended the stream yet.
    kOver,
  };

  // `sink` and `events` outlive the session.
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
  State state() const { return state_; }
  // True while packets are to be read from the socket.
  bool reads_packets() const {
    return state_ == State::kGreeting ||
           (state_ == State::kStreaming && !is_complete_);
  }
  int socket() const { return socket_.get(); }
  // Invalid (-1) where the process cannot be watched.
  int process_fd() const { return process_.get(); }
  // To be watched edge by edge and never read. The session has a ring.
  int data_ready_fd() const { return ring_->data_ready_fd(); }

  // True if there are published chunks that were not offered. The session has a
  // ring.
  bool has_data() const { return ring_->HasNext(); }

  // Reads the packets that have come.
  void OnPackets();

  // Opens the stream that the hello asks for, with the arena that it brings or
  // a new one, of at most `arena_bytes_max`. Blocks; runs on another thread
  // while the session is opening, and posts kOpened at its end.
  void Open(uint64_t arena_bytes_max);
  void OnOpened();

  // Offers published chunks, up to a bound. Returns true if it should be called
  // again without an event.
  bool OnData();

  // The pipeline has room again.
  void OnRoom() { is_paused_ = false; }

  // The producer cannot go on with the session. What it published is taken.
  void OnLeft();

  // The producer's process has ended. Chunks that it had begun are taken, too.
  void OnDied();

  // The pipeline has ended the stream.
  void OnEnded();

  // Tells the producer why and ends a session that has no stream.
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
  // False if the producer does not read.
  bool SendPolicy(const std::string& policy);
  std::unique_ptr<ingest::Lease> NewLease() const;
  void LogLost(const absl::Status& status) const;
  // Returns whether the producer itself has closed the socket.
  bool WasClosed() const;
  // Takes the next chunk that a dead producer had begun; nothing at the end.
  std::optional<ingest::ChunkSink::Offered> OfferDraft();
  // The status of a stream that ends after all its chunks were taken.
  absl::Status TakenStatus() const;
  // Takes no more chunks; the end of the stream follows.
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
  // Set by Open, taken by OnOpened.
  std::optional<absl::StatusOr<Opened>> opened_;

  // Set before the first Offer, and used by the pipeline after it.
  ingest::StreamHandle stream_;
  // Shared with whoever looks at the stream.
  std::shared_ptr<RingReader> ring_;
  bool has_new_arena_ = false;
  bool is_paused_ = false;    // The pipeline has no room.
  bool is_complete_ = false;  // No more will be published.
  bool has_left_ = false;     // The producer went without saying so.
  bool is_renamed_ = false;   // The run is not the one that was asked for.
  bool is_dead_ = false;      // The producer seems to have died.
  // Of a dead producer: what is left of its drafts, and the next number.
  std::optional<std::deque<std::span<const std::byte>>> drafts_;
  uint64_t next_draft_sequence_ = 0;
  bool is_ended_ = false;  // The pipeline calls no more.

  // The socket was shut down on this side, by the pipeline's thread.
  std::atomic<bool> is_cut_off_ = false;

  Mutex mu_;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::shm
