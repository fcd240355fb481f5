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

// The memory of the chunks, which outlives sessions. Empty until a daemon has
// made it.
struct SharedArena {
  UniqueFd fd;
  shm::MappedRegion memory;
  // The listener has heard of it.
  bool is_known = false;

  std::span<std::byte> bytes() const {
    return memory.valid() ? std::span(memory.data(), memory.size())
                          : std::span<std::byte>();
  }
};

// One session with a daemon. A thread of its own listens to the daemon; it
// sleeps while there is nothing to hear. ShmTransport makes and owns it.
class ShmSession {
 public:
  // Connects and says hello; what comes of it is heard by `listener`. It and
  // `arena`, which the session fills if it is empty, outlive the session.
  //
  // Throws std::system_error where the system has no threads left.
  ShmSession(const std::string& socket_path, const StreamIdentity& identity,
             TransportListener* listener, SharedArena& arena);

  // Breaks off. The listener hears no more.
  ~ShmSession();
  ShmSession(const ShmSession&) = delete;
  ShmSession& operator=(const ShmSession&) = delete;

  // Of the sender thread, once the session is open. A session over which
  // nothing can be sent breaks off.
  void Publish(std::span<const std::byte> chunk);
  // Returns false if the daemon does not read: try again later.
  bool ReportCoverage(const StreamCoverage& coverage, int64_t token_end);
  void Finish();

 private:
  bool SayHello(const StreamIdentity& identity);

  // On the thread of the session.
  void Listen() noexcept;
  void ListenUntilEnd();
  // Returns false behind the end of the session.
  bool HandlePacket(shm::Packet& packet);
  bool HandleWelcome(shm::Packet& packet, const shm::SessionWelcome& welcome);
  bool HandlePolicy(const shm::Packet& packet, uint64_t policy_bytes);
  bool TakeArena(shm::Packet& packet, uint64_t arena_bytes);
  void PassOnCommits();
  bool End(StreamEnd end, std::string_view message);

  // Ends the session for the daemon, which is not to take the drafts: the
  // stream goes on in another session, or was ended on purpose.
  void BreakOff();

  TransportListener* const listener_;
  SharedArena& arena_;
  const bool had_arena_;
  UniqueFd socket_;
  // Why there is no socket, or no hello went over it.
  std::string failure_;

  // Made by the thread of the session before the listener hears that the
  // stream is open, used by the sender thread afterwards.
  std::optional<shm::RingWriter> ring_;
  uint64_t committed_count_ = 0;  // As the listener knows.

  // Held while the daemon is told whether drafts are kept, so that nothing is
  // said behind the last word.
  std::mutex draft_mu_;
  bool was_broken_off_ = false;  // Guarded by draft_mu_.

  std::thread thread_;
};

}  // namespace msitd::client
