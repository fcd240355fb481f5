// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/caller_slots.h"

#include <grpcpp/security/server_credentials.h>

#include <algorithm>
#include <utility>

#include "daemon/access/peer.h"
#include "daemon/service/call/caller_stamp.h"
#include "protos/status/status.h"

namespace msitd::server {

CallerSlots::CallerSlots(access::AccessPolicy policy,
                         grpc::ServerBuilder& builder, size_t slots_max)
    : policy_(std::move(policy)), slots_(slots_max) {
  for (Slot& slot : slots_) {
    slot.name = std::make_shared<Name>();
    auto credentials = grpc::experimental::LocalServerCredentials(UDS);
    credentials->SetAuthMetadataProcessor(
        std::make_shared<service::CallerStamp>(
            [name = slot.name](const grpc::AuthContext&) {
              MutexLock lock(name->mu);
              return name->caller;
            }));
    slot.handler = AddHandler(builder, std::move(credentials));
  }
}

CallerSlots::Slot* CallerSlots::Find(const access::Caller& caller,
                                     Clock::time_point now) {
  Slot* free = nullptr;
  for (Slot& slot : slots_) {
    std::erase_if(slot.held,
                  [](const HeldSocket& held) { return !held.IsOpen(); });
    if (slot.held.empty() && std::exchange(slot.was_held, false)) {
      slot.free_since = now;
    }
    if (slot.caller == caller) return &slot;
    const bool is_new = slot.caller == access::Caller();
    const bool has_rested = slot.held.empty() && now - slot.free_since >= kRest;
    if (free == nullptr && (is_new || has_rested)) free = &slot;
  }
  return free;
}

absl::Status CallerSlots::Take(int listener, UniqueFd socket) {
  MSITD_ASSIGN_OR_RETURN(const access::Peer peer,
                         access::GetPeer(socket.get()));
  MSITD_ASSIGN_OR_RETURN(
      const access::Caller caller,
      policy_.AdmitUser(peer, socket_group_, access::Role::kReader));
  Slot* const slot = Find(caller, Clock::now());
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
