// SPDX-License-Identifier: Apache-2.0
#include "client/web/connection_pool.h"

#include <utility>

#include "client/ask/query/exit_code.h"

namespace msitd::web {

PooledConnection::PooledConnection(std::unique_ptr<ask::Connection> connection,
                                   std::unique_ptr<ask::NodeFanout> fanout)
    : connection_(std::move(connection)), fanout_(std::move(fanout)) {
  if (fanout_ != nullptr) connection_->SetFanout(fanout_.get());
}

ConnectionPool::ConnectionPool(Daemons daemons, ask::Interrupts& interrupts)
    : daemons_(std::move(daemons)), interrupts_(interrupts) {}

std::unique_ptr<PooledConnection> ConnectionPool::Take() {
  {
    MutexLock lock(mu_);
    if (!idle_.empty()) {
      auto connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  std::unique_ptr<ask::NodeFanout> fanout;
  if (!daemons_.nodes.empty()) {
    fanout = std::make_unique<ask::NodeFanout>(
        daemons_.nodes, interrupts_,
        // The page takes the nodes that failed from the answers.
        [](const std::string& /*line*/) {});
  }
  return std::make_unique<PooledConnection>(
      std::make_unique<ask::Connection>(daemons_.connection, interrupts_),
      std::move(fanout));
}

void ConnectionPool::Return(std::unique_ptr<PooledConnection> connection,
                            const ask::Outcome& outcome) {
  if (connection->fanout() != nullptr) return;
  std::vector<std::unique_ptr<PooledConnection>> closed;
  const bool is_lost =
      outcome.exit_code == ask::ExitCodeOf(grpc::StatusCode::UNAVAILABLE);
  MutexLock lock(mu_);
  if (is_lost) {
    closed.swap(idle_);
  } else {
    idle_.push_back(std::move(connection));
  }
}

}  // namespace msitd::web
