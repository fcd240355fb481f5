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

// Converts an outcome to a status: CANCELLED for an interrupt, otherwise
// INTERNAL with the error.
absl::Status StatusOf(const ask::Outcome& outcome);

// Returns whether the error of a client's stream reports a full disk of the
// daemon. The disk of a private daemon stays full, because nothing is removed
// from its store.
bool SaysDiskFull(std::string_view stream_error);
// Returns RESOURCE_EXHAUSTED with the folder for temporary files, whose disk is
// full.
absl::Status DiskFullError(std::string_view stream_error);

// A private msitd for one command, which ends with this object and stores data
// in the folder for temporary files. Thread-compatible; starts and lives on the
// main thread.
class PrivateRuns {
 public:
  // Borrows `interrupts`. Returns the errors of PrivateDaemon::Start.
  static absl::StatusOr<std::unique_ptr<PrivateRuns>> Start(
      ask::Interrupts& interrupts);
  ~PrivateRuns();

  ask::Connection& connection() { return *connection_; }
  // Returns another connection, for the calls of another thread.
  std::unique_ptr<ask::Connection> NewConnection() const;
  // The gRPC target.
  const std::string& target() const { return target_; }

  // `comparison` is its current state.
  using TakeRow = std::function<absl::Status(const v1::Comparison& comparison,
                                             const v1::ComparisonRow& row)>;

  // Compares two runs, with msit's formulas if `comparison` selects no preset.
  // `comparison` contains further options, and receives the final state. Rows
  // are passed in order. Returns CANCELLED on an interrupt, or the error of the
  // daemon or of `take`.
  absl::Status Compare(v1::Comparison& comparison, const TakeRow& take);

 private:
  explicit PrivateRuns(ask::Interrupts& interrupts);

  ask::Interrupts& interrupts_;
  std::unique_ptr<ask::PrivateDaemon> daemon_;
  std::string target_;
  std::unique_ptr<ask::Connection> connection_;
};

}  // namespace msitd::msit_command
