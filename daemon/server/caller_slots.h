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

// Hands connections of a Unix socket over to gRPC. gRPC does not identify the
// user at the other end, so each user has a connection handler of their own,
// which distinguishes the user's connections from all others. A handler is
// reassigned to another user only after its previous connections have been
// closed for a long time, so that none of their calls can still be in progress.
//
// No user can exclude all others: a user may have at most a quarter of the
// connections, and some connections and the last handler are reserved for
// admins.
//
// Users without a role get a handler that they share, in which every call is
// refused with the reason, because a closed connection has none.
//
// Thread-compatible.
class CallerSlots final : public Handover {
 public:
  // Maximum number of users connected at a time.
  static constexpr size_t kSlotsMax = 64;
  // Maximum number of connections of all users without a role. Further ones are
  // closed.
  static constexpr size_t kStrangersMax = 4;
  // How long a handler without connections stays reserved for its user.
  static constexpr std::chrono::seconds kRest{60};

  using Clock = std::chrono::steady_clock;

  // Fractions of the connections: each user may have at most one in kUserShare,
  // and one in kAdminShare is reserved for admins.
  static constexpr size_t kUserShare = 4;
  static constexpr size_t kAdminShare = 8;

  // Adds the handlers to `builder`.
  CallerSlots(access::AccessPolicy policy, grpc::ServerBuilder& builder,
              size_t connections_max);

  // Sets the group of the socket file. Must be called before Take().
  void SetSocketGroup(gid_t group) { socket_group_ = group; }

  // Errors: those of AccessPolicy::AdmitUser for a reader, whose calls are
  // refused; RESOURCE_EXHAUSTED
  // (STREAMS_EXHAUSTED) if there are too many users, or too many connections of
  // this user.
  absl::Status Take(int listener, UniqueFd socket) override;

 private:
  // The caller of all connections of a handler. Written by CallerSlots and read
  // by the handler's CallerStamp.
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

  static Slot MakeSlot(grpc::ServerBuilder& builder);
  // Hands over a connection whose calls will be refused.
  void Refuse(int listener, UniqueFd socket);
  // Returns the slot of a caller, or a free one; null if there is none.
  Slot* Find(const access::Caller& caller, Clock::time_point now);
  void ForgetClosed(Clock::time_point now);
  absl::Status CheckShares(const access::Caller& caller) const;

  const access::AccessPolicy policy_;
  const size_t connections_max_;
  gid_t socket_group_ = static_cast<gid_t>(-1);
  std::vector<Slot> slots_;
  Slot strangers_;
};

}  // namespace msitd::server
