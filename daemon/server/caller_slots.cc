// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/caller_slots.h"

#include <grpcpp/security/server_credentials.h>

#include <algorithm>
#include <utility>

#include "daemon/access/peer.h"
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

CallerSlots::CallerSlots(access::AccessPolicy policy,
                         grpc::ServerBuilder& builder, size_t connections_max)
    : policy_(std::move(policy)), connections_max_(connections_max) {
  for (size_t i = 0; i < kSlotsMax; ++i) slots_.push_back(MakeSlot(builder));
  strangers_ = MakeSlot(builder);
  MutexLock lock(strangers_.name->mu);
  strangers_.name->caller = {"this user", access::Role::kNone};
}

void CallerSlots::ForgetClosed(Clock::time_point now) {
  for (Slot& slot : slots_) {
    std::erase_if(slot.held,
                  [](const HeldSocket& held) { return !held.IsOpen(); });
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

void CallerSlots::Refuse(int listener, UniqueFd socket) {
  std::erase_if(strangers_.held,
                [](const HeldSocket& held) { return !held.IsOpen(); });
  if (strangers_.held.size() >= kStrangersMax) return;
  strangers_.held.emplace_back(socket.get());
  HandTo(*strangers_.handler, listener, std::move(socket));
}

absl::Status CallerSlots::Take(int listener, UniqueFd socket) {
  MSITD_ASSIGN_OR_RETURN(const access::Peer peer,
                         access::GetPeer(socket.get()));
  const absl::StatusOr<access::Caller> admitted =
      policy_.AdmitUser(peer, socket_group_, access::Role::kReader);
  if (!admitted.ok()) {
    Refuse(listener, std::move(socket));
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
  if (slot->caller != caller) {
    slot->caller = caller;
    MutexLock lock(slot->name->mu);
    slot->name->caller = caller;
  }
  slot->held.emplace_back(socket.get());
  slot->was_held = true;
  HandTo(*slot->handler, listener, std::move(socket));
  return absl::OkStatus();
}

}  // namespace msitd::server
