// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "daemon/access/live_policy.h"
#include "daemon/access/peer.h"
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
// When the policy changes, the next calls of open connections have the new
// roles of their callers. The connections of a handler belong to processes of
// one user that had the same role. If their groups now give them different
// roles, only those with the lowest role stay open; the clients of the others
// connect again and get another handler.
//
// Thread-safe.
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

  // Adds the handlers to `builder`. `policy` must outlive the handlers.
  CallerSlots(const access::LivePolicy& policy, grpc::ServerBuilder& builder,
              size_t connections_max);

  // Sets the group of the socket file. Must be called before Take().
  void SetSocketGroup(gid_t group) {
    MutexLock lock(mu_);
    socket_group_ = group;
  }

  // Gives the callers of open connections their roles of the policy in force.
  // Must be called after each change of the policy. Connections of callers that
  // had no role are closed, so that their clients connect again.
  void ApplyPolicy();

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
  struct HeldConnection {
    HeldSocket socket;
    access::Peer peer;
  };
  struct Slot {
    ConnectionHandler handler;
    std::shared_ptr<Name> name;
    access::Caller caller;
    std::vector<HeldConnection> held;
    Clock::time_point free_since{};
    bool was_held = false;
  };

  static Slot MakeSlot(grpc::ServerBuilder& builder);
  // Hands over a connection whose calls will be refused.
  void Refuse(int listener, UniqueFd socket, const access::Peer& peer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the slot of a caller, or a free one; null if there is none.
  Slot* Find(const access::Caller& caller, Clock::time_point now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetClosed(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckShares(const access::Caller& caller) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void SetCaller(Slot& slot, const access::Caller& caller);
  void JudgeAgain(const access::AccessPolicy& policy, Slot& slot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const access::LivePolicy& policy_;
  const size_t connections_max_;
  Mutex mu_;
  gid_t socket_group_ ABSL_GUARDED_BY(mu_) = static_cast<gid_t>(-1);
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mu_);
  Slot strangers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::server
