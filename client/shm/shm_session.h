// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "client/core/delivery/transport.h"
#include "protos/os/unique_fd.h"
#include "protos/shm/ring_writer.h"
#include "protos/shm/sealed_memory.h"
#include "protos/shm/session_socket.h"

namespace msitd::client {

// The memory that holds the chunks. Outlives sessions. Empty until a daemon has
// made it.
struct SharedArena {
  UniqueFd fd;
  shm::MappedRegion memory;
  // True once the listener was given the memory.
  bool is_known = false;

  std::span<std::byte> bytes() const {
    return memory.valid() ? std::span(memory.data(), memory.size())
                          : std::span<std::byte>();
  }
};

// One session with a daemon. A thread of its own waits for packets of the
// daemon. Made and owned by ShmTransport.
class ShmSession {
 public:
  // Connects and says hello. `listener` hears the outcome. `listener` and
  // `arena` outlive the session, which fills an empty `arena`.
  //
  // Throws std::system_error if the system has no threads left.
  ShmSession(const std::string& socket_path, const StreamIdentity& identity,
             TransportListener* listener, SharedArena& arena);

  // Breaks off. The listener is not called afterwards.
  ~ShmSession();
  ShmSession(const ShmSession&) = delete;
  ShmSession& operator=(const ShmSession&) = delete;

  // Called on the sender thread once the session is open. If nothing can be
  // sent over the session, it breaks off.
  void Publish(std::span<const std::byte> chunk);
  // Returns false if the daemon does not read now: try again later.
  bool ReportCoverage(const StreamCoverage& coverage, int64_t token_end);
  void Finish();

 private:
  bool SayHello(const StreamIdentity& identity);

  // On the thread of the session.
  void Listen() noexcept;
  void ListenUntilEnd();
  // Return false once the session has ended.
  bool HandlePacket(shm::Packet& packet);
  bool HandleWelcome(shm::Packet& packet, const shm::SessionWelcome& welcome);
  bool HandlePolicy(const shm::Packet& packet, uint64_t policy_bytes);
  bool TakeArena(shm::Packet& packet, uint64_t arena_bytes);
  void PassOnCommits();
  // Unless the listener knows of as many.
  void PassOnConflicts(uint64_t count);
  bool End(StreamEnd end, std::string_view message);

  // Ends the session. The daemon must not take the drafts, because the stream
  // goes on in another session or was ended on purpose.
  void BreakOff();

  TransportListener* const listener_;
  SharedArena& arena_;
  const bool had_arena_;
  UniqueFd socket_;
  // Why there is no socket, or why no hello was sent; else empty.
  std::string failure_;

  // Made by the thread of the session before it tells the listener that the
  // stream is open. Used by the sender thread from then on.
  std::optional<shm::RingWriter> ring_;
  // What the listener was told.
  uint64_t committed_count_ = 0;
  uint64_t conflict_count_ = 0;

  // Held while the daemon is told whether drafts are kept, so that BreakOff has
  // the last word.
  std::mutex draft_mu_;
  bool was_broken_off_ = false;  // Guarded by draft_mu_.

  std::thread thread_;
};

}  // namespace msitd::client
