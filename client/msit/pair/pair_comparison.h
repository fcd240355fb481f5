// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/msit/table/report_row.h"
#include "client/msit/tensor/tensor.h"

namespace msitd::msit_command {

class PrivateComparison;

// A daemon receives no more pairs once it has this many bytes or pairs. The
// next one starts with an empty store.
inline constexpr uint64_t kBatchBytes = uint64_t{1} << 30;
inline constexpr size_t kBatchPairs = 2048;

// Compares any number of pairs of tensors. Consecutive daemons are used, whose
// stores hold one batch each. Thread-compatible; lives on the main thread.
class PairComparison {
 public:
  // Receives the row of pair number `pair`, in the order of Add from 0.
  using Take =
      std::function<absl::Status(size_t pair, const v1::Comparison& comparison,
                                 const v1::ComparisonRow& row)>;
  // Converts rows to those of msit's report.
  static Take TakeReportRows(
      std::function<void(size_t pair, const ReportRow& row)> take);

  // Borrows `interrupts`.
  PairComparison(ask::Interrupts& interrupts, Take take);
  ~PairComparison();

  // Adds a pair; both tensors have elements. Returns the errors of
  // PrivateComparison; a pair with an error has no number. Rows are passed on
  // when a batch is full, in any order, and by Finish.
  absl::Status Add(const Tensor& golden, const Tensor& my);
  absl::Status Finish();

 private:
  ask::Interrupts& interrupts_;
  const Take take_;
  std::unique_ptr<PrivateComparison> batch_;
  uint64_t batch_bytes_ = 0;
  // The pairs of the batch by op. A used op names no other tensor.
  std::map<std::string, size_t> batch_pairs_;
  size_t used_op_count_ = 0;
  size_t count_ = 0;
};

}  // namespace msitd::msit_command
