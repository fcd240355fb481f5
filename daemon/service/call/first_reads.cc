// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/first_reads.h"

#include <algorithm>
#include <utility>

#include "daemon/service/call/peer.h"
#include "protos/status/status.h"

namespace msitd::service {

FirstReads::FirstReads()
    : late_("first-reads", GRPC_STATUS_DEADLINE_EXCEEDED,
            "the request took too long to come",
            [this] { return TakeLate(); }) {}

void FirstReads::GiveTurn(const std::string& peer, Connection& connection) {
  if (connection.has_turn || connection.waiting.empty() ||
      connection.active >= kConnectionReadsMax) {
    return;
  }
  connection.has_turn = true;
  IsLocal(peer) ? turns_.push_front(peer) : turns_.push_back(peer);
}

void FirstReads::ForgetIfEmpty(
    std::map<std::string, Connection>::iterator connection) {
  if (connection->second.active > 0 || !connection->second.waiting.empty()) {
    return;
  }
  if (connection->second.has_turn) {
    turns_.erase(std::find(turns_.begin(), turns_.end(), connection->first));
  }
  connections_.erase(connection);
}

std::vector<FirstReads::Reader*> FirstReads::TakeTurns() {
  std::vector<Reader*> out;
  while (active_.size() < kReadsMax && !turns_.empty()) {
    const std::string peer = std::move(turns_.front());
    turns_.pop_front();
    const auto it = connections_.find(peer);
    if (it == connections_.end()) continue;
    Connection& connection = it->second;
    connection.has_turn = false;
    if (connection.waiting.empty()) continue;
    const Waiting next = std::move(connection.waiting.front());
    connection.waiting.pop_front();
    --waiting_count_;
    ++connection.active;
    active_.emplace(next.reader, Active{next.call, peer, Clock::now()});
    out.push_back(next.reader);
    GiveTurn(peer, connection);
  }
  return out;
}

absl::Status FirstReads::Enter(Reader& reader, grpc_call* call,
                               const std::string& peer,
                               const access::Caller& caller) {
  access::FairShares::Grant share;
  if (!IsLocal(peer)) {
    MSITD_ASSIGN_OR_RETURN(share, waiting_shares_.Acquire(caller));
  }
  std::vector<Reader*> next;
  {
    MutexLock lock(mu_);
    Connection& connection = connections_[peer];
    connection.waiting.push_back({&reader, call, std::move(share)});
    ++waiting_count_;
    GiveTurn(peer, connection);
    next = TakeTurns();
  }
  late_.Watch();
  for (Reader* granted : next) granted->StartFirstRead();
  return absl::OkStatus();
}

void FirstReads::Leave(Reader& reader) {
  std::vector<Reader*> next;
  {
    MutexLock lock(mu_);
    const auto it = active_.find(&reader);
    if (it == active_.end()) return;
    const std::string peer = std::move(it->second.peer);
    active_.erase(it);
    const auto found = connections_.find(peer);
    --found->second.active;
    GiveTurn(peer, found->second);
    ForgetIfEmpty(found);
    next = TakeTurns();
  }
  for (Reader* granted : next) granted->StartFirstRead();
}

bool FirstReads::Abandon(Reader& reader) {
  MutexLock lock(mu_);
  if (active_.contains(&reader)) return false;
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    std::deque<Waiting>& waiting = it->second.waiting;
    const auto found =
        std::find_if(waiting.begin(), waiting.end(),
                     [&](const Waiting& w) { return w.reader == &reader; });
    if (found == waiting.end()) continue;
    waiting.erase(found);
    --waiting_count_;
    ForgetIfEmpty(it);
    return true;
  }
  return false;
}

LateCalls::FoundCalls FirstReads::TakeLate() {
  LateCalls::FoundCalls found;
  const auto now = Clock::now();
  MutexLock lock(mu_);
  const bool is_full = active_.size() >= kReadsMax && waiting_count_ > 0;
  for (auto& [reader, active] : active_) {
    // Unless all reads are taken, a call obstructs only calls of its own
    // connection.
    const Connection& own = connections_.at(active.peer);
    const bool is_in_the_way =
        is_full || (own.active >= kConnectionReadsMax && !own.waiting.empty());
    const auto timeout = is_in_the_way ? kBusyTimeout : kTimeout;
    if (active.is_late || now - active.since < timeout) continue;
    active.is_late = true;
    grpc_call_ref(active.call);
    found.late.push_back(active.call);
  }
  found.has_others = !active_.empty();
  return found;
}

}  // namespace msitd::service
