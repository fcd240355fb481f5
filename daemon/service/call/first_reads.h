// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/access/caller.h"
#include "daemon/access/fair_shares.h"
#include "daemon/service/call/late_calls.h"
#include "protos/base/error_reason.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Limits the number of calls that read their first message at the same time.
// Once a read has started, gRPC receives the whole message, whatever its length
// and duration, before the daemon sees any byte of it. Until then gRPC buffers
// little. A call with a slow message is cancelled as soon as other calls wait
// for its place. All connections take turns.
//
// Thread-safe.
class FirstReads {
 public:
  // This amounts to 64 MiB with messages of 4 MiB.
  static constexpr size_t kReadsMax = 16;
  static constexpr int kConnectionReadsMax = 4;

  // Maximum number of waiting calls, divided among callers by
  // access::FairShares. Strangers can connect only over TCP, so calls over the
  // Unix socket are not limited by this and have priority.
  static constexpr uint64_t kWaitingMax = 1024;

  // How long a message may take: kBusyTimeout while other calls wait for its
  // place, either among all calls or among those of its connection, otherwise
  // kTimeout.
  static constexpr std::chrono::milliseconds kBusyTimeout{500};
  static constexpr std::chrono::milliseconds kTimeout{20'000};

  // A call from Enter to the end of its read.
  class Reader {
   public:
    virtual ~Reader() = default;
    // Starts the read. Called on any thread, without locks held.
    virtual void StartFirstRead() = 0;
  };

  FirstReads();
  // All calls must have ended.
  ~FirstReads() = default;
  FirstReads(const FirstReads&) = delete;
  FirstReads& operator=(const FirstReads&) = delete;

  // Starts the read of `reader`, now or later. `call` must stay valid until the
  // read has ended; it is cancelled if it takes too long. `peer` identifies the
  // connection.
  //
  // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if too many calls wait.
  absl::Status Enter(Reader& reader, grpc_call* call, const std::string& peer,
                     const access::Caller& caller);

  // Must be called when the read has ended, successfully or not.
  void Leave(Reader& reader);

  // Must be called when the call is cancelled. Returns true if its read has not
  // started and never will. Returns false if the read has started; it then ends
  // by itself.
  bool Abandon(Reader& reader);

 private:
  using Clock = std::chrono::steady_clock;

  struct Waiting {
    Reader* reader;
    grpc_call* call;
    access::FairShares::Grant share;  // Empty for the Unix socket.
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
    bool is_late = false;  // Was cancelled.
  };

  void GiveTurn(const std::string& peer, Connection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes a connection without calls, and its turn.
  void ForgetIfEmpty(std::map<std::string, Connection>::iterator connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts the readers whose turn it is, and returns them.
  std::vector<Reader*> TakeTurns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  LateCalls::FoundCalls TakeLate() ABSL_LOCKS_EXCLUDED(mu_);

  access::FairShares waiting_shares_{
      {.what = "calls that wait for their request",
       .capacity = kWaitingMax,
       .reason = ErrorReason::kRequestsExhausted}};
  Mutex mu_;
  std::map<Reader*, Active> active_ ABSL_GUARDED_BY(mu_);
  // Connections that have a call here; kWaitingMax bounds their number.
  std::map<std::string, Connection> connections_ ABSL_GUARDED_BY(mu_);
  // Connections, each at most once, that have a waiting call and fewer active
  // calls than allowed.
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mu_);
  uint64_t waiting_count_ ABSL_GUARDED_BY(mu_) = 0;
  // Ends before the other members.
  LateCalls late_;
};

}  // namespace msitd::service
