// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "client/libmsit/core/delivery/transport.h"
#include "protos/os/unique_fd.h"
#include "protos/shm/ring_writer.h"
#include "protos/shm/sealed_memory.h"
#include "protos/shm/session_socket.h"

namespace msitd::libmsit {

// The memory that contains the chunks. Outlives sessions. Empty until a daemon
// has created it.
struct SharedArena {
  UniqueFd fd;
  shm::MappedRegion memory;
  // True after the memory was passed to the listener.
  bool is_known = false;

  std::span<std::byte> bytes() const {
    return memory.valid() ? std::span(memory.data(), memory.size())
                          : std::span<std::byte>();
  }
};

// One session with a daemon. A thread of its own waits for packets from the
// daemon. Created and owned by ShmTransport.
class ShmSession {
 public:
  // Connects and sends the hello. The outcome is reported to `listener`.
  // `listener` and `arena` must outlive the session, which fills an empty
  // `arena`.
  //
  // Throws std::system_error if the system has no threads left.
  ShmSession(const std::string& socket_path, const StreamIdentity& identity,
             TransportListener* listener, SharedArena& arena);

  // Breaks off the session. The listener is not called afterwards.
  ~ShmSession();
  ShmSession(const ShmSession&) = delete;
  ShmSession& operator=(const ShmSession&) = delete;

  // Called on the sender thread while the session is open. If nothing can be
  // sent, the session is broken off.
  void Publish(std::span<const std::byte> chunk);
  // Returns false if the daemon does not read at present; the caller should
  // retry later.
  bool ReportCoverage(const StreamCoverage& coverage, int64_t token_end);
  void Finish();

 private:
  bool SayHello(const StreamIdentity& identity);

  // Runs on the thread of the session.
  void Listen() noexcept;
  void ListenUntilEnd();
  // These functions return false if the session has ended.
  bool HandlePacket(shm::Packet& packet);
  bool HandleWelcome(shm::Packet& packet, const shm::SessionWelcome& welcome);
  bool HandlePolicy(const shm::Packet& packet, uint64_t policy_bytes);
  bool TakeArena(shm::Packet& packet, uint64_t arena_bytes);
  void PassOnCommits();
  // Does nothing if the listener has already received this count.
  void PassOnConflicts(uint64_t count);
  bool End(StreamEnd end, std::string_view message);

  // Ends the session. The daemon must not recover the drafts, because the
  // stream continues in another session or was ended deliberately.
  void BreakOff();

  TransportListener* const listener_;
  SharedArena& arena_;
  const bool had_arena_;
  UniqueFd socket_;
  // Why there is no socket or why no hello was sent; otherwise empty.
  std::string failure_;

  // Created by the thread of the session before it reports to the listener that
  // the stream is open. Used by the sender thread after that.
  std::optional<shm::RingWriter> ring_;
  // Counts that the listener has received.
  uint64_t committed_count_ = 0;
  uint64_t conflict_count_ = 0;

  // Held while setting whether the daemon may recover drafts, so that BreakOff
  // has the last word.
  std::mutex draft_mu_;
  bool was_broken_off_ = false;  // Guarded by draft_mu_.

  std::thread thread_;
};

}  // namespace msitd::libmsit
