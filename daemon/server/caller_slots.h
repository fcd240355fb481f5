// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/access/access_policy.h"
#include "daemon/server/handover.h"
#include "daemon/server/held_socket.h"
#include "protos/status/mutex.h"

namespace msitd::server {

// Gives connections of a Unix socket to gRPC, which does not know the user at
// the other end. So it gets a handler for each user, whose connections it can
// tell from all others. A handler goes to another user only when the one before
// has long been gone, and no call of theirs can be under way.
//
// Nobody can take the places of all others: a user has at most a quarter of the
// connections, and some of them, like the last handler, are for admins alone.
//
// Thread-compatible.
class CallerSlots final : public Handover {
 public:
  // Users that may be connected at a time.
  static constexpr size_t kSlotsMax = 64;
  // How long a handler without connections waits for another user.
  static constexpr std::chrono::seconds kRest{60};

  using Clock = std::chrono::steady_clock;

  // Parts of the connections: one in so many for each user, and for admins.
  static constexpr size_t kUserShare = 4;
  static constexpr size_t kAdminShare = 8;

  // Adds the handlers to `builder`.
  CallerSlots(access::AccessPolicy policy, grpc::ServerBuilder& builder,
              size_t connections_max);

  // The group of the socket file. Before Take().
  void SetSocketGroup(gid_t group) { socket_group_ = group; }

  // Errors: those of AccessPolicy::AdmitUser for a reader;
  // RESOURCE_EXHAUSTED (STREAMS_EXHAUSTED) with too many users, or too many
  // connections of this one.
  absl::Status Take(int listener, UniqueFd socket) override;

 private:
  // Who calls over a handler. Written here, read by the stamp of the handler.
  struct Name {
    Mutex mu;
    access::Caller caller ABSL_GUARDED_BY(mu);
  };
  struct Slot {
    ConnectionHandler handler;
    std::shared_ptr<Name> name;
    access::Caller caller;
    std::vector<HeldSocket> held;
    Clock::time_point free_since{};
    bool was_held = false;
  };

  // The slot of a caller, or one that is free; null if there is none.
  Slot* Find(const access::Caller& caller, Clock::time_point now);
  void ForgetClosed(Clock::time_point now);
  absl::Status CheckShares(const access::Caller& caller) const;

  const access::AccessPolicy policy_;
  const size_t connections_max_;
  gid_t socket_group_ = static_cast<gid_t>(-1);
  std::vector<Slot> slots_;
};

}  // namespace msitd::server
