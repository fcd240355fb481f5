// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/query/interrupts.h"
#include "client/ask/query/outcome.h"
#include "client/ask/query/private_daemon.h"

namespace msitd::ask {
class Connection;
}  // namespace msitd::ask

namespace msitd::v1 {
class Comparison;
class ComparisonRow;
}  // namespace msitd::v1

namespace msitd::msit_command {

inline constexpr char kGoldenRun[] = "golden";
inline constexpr char kMyRun[] = "my";

// As a status: CANCELLED by an interrupt, INTERNAL with the error else.
absl::Status StatusOf(const ask::Outcome& outcome);

// What the stream of a client says of a daemon whose disk is full. That of a
// private daemon stays full: nothing in its store goes.
bool SaysDiskFull(std::string_view stream_error);
// RESOURCE_EXHAUSTED with the folder for temporary files, whose disk it is.
absl::Status DiskFullError(std::string_view stream_error);

// A msitd for one command, which ends with this object and keeps its store in
// the folder for temporary files. Thread-compatible; starts and lives on the
// main thread.
class PrivateRuns {
 public:
  // Borrows `interrupts`. The errors of PrivateDaemon::Start.
  static absl::StatusOr<std::unique_ptr<PrivateRuns>> Start(
      ask::Interrupts& interrupts);
  ~PrivateRuns();

  ask::Connection& connection() { return *connection_; }
  // Another one, for the calls of another thread.
  std::unique_ptr<ask::Connection> NewConnection() const;
  // Of gRPC.
  const std::string& target() const { return target_; }

  // `comparison` is as far as it has come.
  using TakeRow = std::function<absl::Status(const v1::Comparison& comparison,
                                             const v1::ComparisonRow& row)>;

  // Compares two runs by msit's formulas. `comparison` says what else is
  // wanted, and what it became at the end. Rows come in their order. CANCELLED
  // by an interrupt; the error of the daemon or of `take` else.
  absl::Status Compare(v1::Comparison& comparison, const TakeRow& take);

 private:
  explicit PrivateRuns(ask::Interrupts& interrupts);

  ask::Interrupts& interrupts_;
  std::unique_ptr<ask::PrivateDaemon> daemon_;
  std::string target_;
  std::unique_ptr<ask::Connection> connection_;
};

}  // namespace msitd::msit_command
