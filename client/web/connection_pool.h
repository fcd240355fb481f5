// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "client/ask/fanout/node_fanout.h"
#include "client/ask/query/connection.h"
#include "protos/status/mutex.h"

namespace msitd::web {

// The daemon or daemons that a page shows.
struct Daemons {
  ask::ConnectionOptions connection;
  // If not empty, these daemons are called like a single one.
  std::vector<ask::ConnectionOptions> nodes;
};

// A connection for one request. Used by one thread.
class PooledConnection {
 public:
  // `fanout` may be null.
  PooledConnection(std::unique_ptr<ask::Connection> connection,
                   std::unique_ptr<ask::NodeFanout> fanout);

  ask::Connection& connection() { return *connection_; }
  // Null for a single daemon.
  ask::NodeFanout* fanout() { return fanout_.get(); }

 private:
  std::unique_ptr<ask::Connection> connection_;
  std::unique_ptr<ask::NodeFanout> fanout_;
};

// Connections to one daemon, kept between requests. Several daemons are
// connected for each request, so that one that has failed is tried again.
// Thread-safe.
class ConnectionPool {
 public:
  // Borrows `interrupts`, which cancels all calls.
  ConnectionPool(Daemons daemons, ask::Interrupts& interrupts);

  std::unique_ptr<PooledConnection> Take();

  // Takes a connection back. `outcome` is that of its last call. If the daemon
  // was not available, all idle connections are closed: gRPC would wait longer
  // before each attempt to connect one of them again.
  void Return(std::unique_ptr<PooledConnection> connection,
              const ask::Outcome& outcome);

 private:
  const Daemons daemons_;
  ask::Interrupts& interrupts_;

  Mutex mu_;
  std::vector<std::unique_ptr<PooledConnection>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::web
