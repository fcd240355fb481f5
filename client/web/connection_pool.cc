// SPDX-License-Identifier: Apache-2.0
#include "client/web/connection_pool.h"

#include <utility>

#include "client/ask/query/exit_code.h"

namespace msitd::web {

PooledConnection::PooledConnection(
    std::unique_ptr<ask::Connection> connection,
    std::unique_ptr<ask::NodeFanout> fanout,
    std::shared_ptr<std::vector<std::string>> notes)
    : connection_(std::move(connection)),
      fanout_(std::move(fanout)),
      notes_(std::move(notes)) {
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
  auto notes = std::make_shared<std::vector<std::string>>();
  std::unique_ptr<ask::NodeFanout> fanout;
  if (!daemons_.nodes.empty()) {
    fanout = std::make_unique<ask::NodeFanout>(
        daemons_.nodes, interrupts_,
        [notes](const std::string& line) { notes->push_back(line); });
  }
  return std::make_unique<PooledConnection>(
      std::make_unique<ask::Connection>(daemons_.connection, interrupts_),
      std::move(fanout), std::move(notes));
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
