// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "daemon/access/caller.h"
#include "daemon/access/fair_shares.h"
#include "protos/base/error_reason.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Lets few calls at a time read their first message. Once a read has started,
// gRPC takes in the whole message, of whatever length and for however long,
// before anybody sees a byte of it; until then it takes in little. A call whose
// message is slow makes way as soon as others wait for its place. All
// connections get their turn.
//
// Thread-safe.
class FirstReads {
 public:
  // That is 64 MiB with messages of 4 MiB.
  static constexpr size_t kReadsMax = 16;
  static constexpr int kConnectionReadsMax = 4;

  // Calls that may wait, divided among callers as access::FairShares says.
  // Strangers come over TCP, so calls over the Unix socket are not bounded by
  // this, and come first.
  static constexpr uint64_t kWaitingMax = 1024;

  // How long a message may take: while other calls wait for its place, be it
  // among all calls or among those of its connection; and while none does.
  static constexpr std::chrono::milliseconds kBusyTimeout{500};
  static constexpr std::chrono::milliseconds kTimeout{20'000};

  // One call, from Enter to the end of its read.
  class Reader {
   public:
    virtual ~Reader() = default;
    // Starts the read. On any thread, without a lock held.
    virtual void StartFirstRead() = 0;
  };

  FirstReads();
  // All calls are over.
  ~FirstReads();
  FirstReads(const FirstReads&) = delete;
  FirstReads& operator=(const FirstReads&) = delete;

  // Starts the read of `reader`, now or later. `call` lives until its read has
  // ended; it is cancelled if it takes too long. `peer` tells connections
  // apart.
  //
  // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if too many wait.
  absl::Status Enter(Reader& reader, grpc_call* call, const std::string& peer,
                     const access::Caller& caller);

  // The read has ended, well or not.
  void Leave(Reader& reader);

  // The call is cancelled. True if its read has not started and never will;
  // false if it has, and ends by itself.
  bool Abandon(Reader& reader);

 private:
  using Clock = std::chrono::steady_clock;

  struct Waiting {
    Reader* reader;
    grpc_call* call;
    access::FairShares::Grant share;  // Nothing for the Unix socket.
  };
  struct Connection {
    int active = 0;
    std::deque<Waiting> waiting;
    bool has_turn = false;  // Is in turns_.
  };
  struct Active {
    grpc_call* call;
    std::string peer;
    Clock::time_point since;
    bool is_late = false;  // And cancelled.
  };

  void GiveTurn(const std::string& peer, Connection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets a connection that has no call any more, and its turn.
  void ForgetIfEmpty(std::map<std::string, Connection>::iterator connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the readers active whose turn it is, and returns them.
  std::vector<Reader*> TakeTurns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Watch();
  std::vector<grpc_call*> TakeLate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  access::FairShares waiting_shares_{
      {.what = "calls that wait for their request",
       .capacity = kWaitingMax,
       .reason = ErrorReason::kRequestsExhausted}};
  Mutex mu_;
  CondVar changed_;
  std::map<Reader*, Active> active_ ABSL_GUARDED_BY(mu_);
  // Those that have a call in here, of which there are few: see kWaitingMax.
  std::map<std::string, Connection> connections_ ABSL_GUARDED_BY(mu_);
  // Each once: connections that have a waiting call, and fewer active ones than
  // they may have.
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mu_);
  uint64_t waiting_count_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace msitd::service
