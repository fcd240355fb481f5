// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/caller_slots.h"

#include <grpcpp/security/server_credentials.h>

#include <algorithm>
#include <utility>

#include "daemon/service/call/caller_stamp.h"
#include "protos/status/status.h"

namespace msitd::server {

CallerSlots::Slot CallerSlots::MakeSlot(grpc::ServerBuilder& builder) {
  Slot slot;
  slot.name = std::make_shared<Name>();
  auto credentials = grpc::experimental::LocalServerCredentials(UDS);
  credentials->SetAuthMetadataProcessor(std::make_shared<service::CallerStamp>(
      [name = slot.name](const grpc::AuthContext&) {
        MutexLock lock(name->mu);
        return name->caller;
      }));
  slot.handler = AddHandler(builder, std::move(credentials));
  return slot;
}

CallerSlots::CallerSlots(const access::LivePolicy& policy,
                         grpc::ServerBuilder& builder, size_t connections_max)
    : policy_(policy), connections_max_(connections_max) {
  MutexLock lock(mu_);
  for (size_t i = 0; i < kSlotsMax; ++i) slots_.push_back(MakeSlot(builder));
  strangers_ = MakeSlot(builder);
  SetCaller(strangers_, {"this user", access::Role::kNone});
}

void CallerSlots::SetCaller(Slot& slot, const access::Caller& caller) {
  slot.caller = caller;
  MutexLock lock(slot.name->mu);
  slot.name->caller = caller;
}

void CallerSlots::ForgetClosed(Clock::time_point now) {
  for (Slot& slot : slots_) {
    std::erase_if(slot.held, [](const HeldConnection& held) {
      return !held.socket.IsOpen();
    });
    if (slot.held.empty() && std::exchange(slot.was_held, false)) {
      slot.free_since = now;
    }
  }
}

CallerSlots::Slot* CallerSlots::Find(const access::Caller& caller,
                                     Clock::time_point now) {
  const bool is_admin = caller.role == access::Role::kAdmin;
  Slot* free = nullptr;
  for (Slot& slot : slots_) {
    if (slot.caller == caller) return &slot;
    const bool is_new = slot.caller == access::Caller();
    const bool has_rested = slot.held.empty() && now - slot.free_since >= kRest;
    const bool is_for_all = is_admin || &slot != &slots_.back();
    if (free == nullptr && is_for_all && (is_new || has_rested)) free = &slot;
  }
  return free;
}

absl::Status CallerSlots::CheckShares(const access::Caller& caller) const {
  if (caller.role == access::Role::kAdmin) return absl::OkStatus();
  size_t own_count = 0;
  size_t count = 0;
  for (const Slot& slot : slots_) {
    count += slot.held.size();
    if (slot.caller.name == caller.name) own_count += slot.held.size();
  }
  if (own_count < connections_max_ / kUserShare &&
      count < connections_max_ - connections_max_ / kAdminShare) {
    return absl::OkStatus();
  }
  return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                               "{} connections are open, {} of {}", count,
                               own_count, caller.name),
                    ErrorReason::kStreamsExhausted);
}

void CallerSlots::Refuse(int listener, UniqueFd socket,
                         const access::Peer& peer) {
  std::erase_if(strangers_.held, [](const HeldConnection& held) {
    return !held.socket.IsOpen();
  });
  if (strangers_.held.size() >= kStrangersMax) return;
  strangers_.held.push_back({HeldSocket(socket.get()), peer});
  HandTo(*strangers_.handler, listener, std::move(socket));
}

absl::Status CallerSlots::Take(int listener, UniqueFd socket) {
  MSITD_ASSIGN_OR_RETURN(const access::Peer peer,
                         access::GetPeer(socket.get()));
  MutexLock lock(mu_);
  const absl::StatusOr<access::Caller> admitted =
      policy_.Get()->AdmitUser(peer, socket_group_, access::Role::kReader);
  if (!admitted.ok()) {
    Refuse(listener, std::move(socket), peer);
    return admitted.status();
  }
  const access::Caller& caller = *admitted;
  const auto now = Clock::now();
  ForgetClosed(now);
  MSITD_RETURN_IF_ERROR(CheckShares(caller));
  Slot* const slot = Find(caller, now);
  if (slot == nullptr) {
    return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                 "{} other users are connected", slots_.size()),
                      ErrorReason::kStreamsExhausted);
  }
  if (slot->caller != caller) SetCaller(*slot, caller);
  slot->held.push_back({HeldSocket(socket.get()), peer});
  slot->was_held = true;
  HandTo(*slot->handler, listener, std::move(socket));
  return absl::OkStatus();
}

void CallerSlots::JudgeAgain(const access::AccessPolicy& policy, Slot& slot) {
  // A slot at rest is given to its next connection by the role of that.
  if (slot.held.empty()) return;
  access::Caller lowest;
  std::vector<access::Role> roles;
  for (const HeldConnection& held : slot.held) {
    const access::Caller caller = policy.OfUser(held.peer, socket_group_);
    if (roles.empty() || caller.role < lowest.role) lowest = caller;
    roles.push_back(caller.role);
  }
  if (lowest != slot.caller) SetCaller(slot, lowest);
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] != lowest.role) slot.held[i].socket.ShutDown();
  }
}

void CallerSlots::ApplyPolicy() {
  MutexLock lock(mu_);
  ForgetClosed(Clock::now());
  const auto policy = policy_.Get();
  for (Slot& slot : slots_) JudgeAgain(*policy, slot);
  for (const HeldConnection& held : strangers_.held) held.socket.ShutDown();
}

}  // namespace msitd::server
