// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/pair/private_runs.h"
#include "client/msit/tensor/tensor.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::libmsit {
class Client;
struct Status;
}  // namespace msitd::libmsit

namespace msitd::msit_command {

// Compares tensors of two sides with msit's formulas, in a private daemon that
// ends with this object and stores data in the folder for temporary files.
// Record the tensors of both sides, then call Compare once. Thread-compatible;
// starts on the main thread.
class PrivateComparison {
 public:
  enum class Side { kGolden, kMy };

  // Borrows `interrupts`. Returns the errors of PrivateRuns::Start.
  static absl::StatusOr<std::unique_ptr<PrivateComparison>> Start(
      ask::Interrupts& interrupts);
  ~PrivateComparison();

  // `op` pairs tensors of the two sides, and occurs at most once in each.
  // Errors: CANCELLED on an interrupt; RESOURCE_EXHAUSTED if the disk is full;
  // UNAVAILABLE if the daemon accepts nothing for kPatience; INVALID_ARGUMENT
  // for a tensor that msitd cannot store.
  absl::Status Record(Side side, const std::string& op, const Tensor& tensor);

  struct Result {
    v1::Comparison comparison;
    std::vector<v1::ComparisonRow> rows;
  };
  // Waits for all rows. Returns CANCELLED on an interrupt, or the error of the
  // daemon.
  absl::StatusOr<Result> Compare();

 private:
  explicit PrivateComparison(ask::Interrupts& interrupts);

  // One client for each side, so that they may record alternately.
  using Clients = std::array<std::unique_ptr<libmsit::Client>, 2>;

  absl::StatusOr<libmsit::Client*> Open(Side side);
  absl::Status Close(Side side);
  // Returns a client's error about a full disk; empty if there is none.
  std::string FullDiskText() const;
  absl::Status StatusOf(const libmsit::Status& status) const;

  ask::Interrupts& interrupts_;
  std::unique_ptr<PrivateRuns> runs_;
  Clients clients_;  // By side; null until something is recorded.
};

}  // namespace msitd::msit_command
