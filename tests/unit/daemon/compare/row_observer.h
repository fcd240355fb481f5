// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/compare/comparison_engine.h"
#include "daemon/compare/comparison_observer.h"

namespace msitd::compare {

// Keeps the rows of a comparison and what comes with them.
class RowObserver final : public ComparisonObserver {
 public:
  bool IsCancelled() override { return is_cancelled && is_cancelled(); }
  void OnTotal(uint64_t tensor_count) override { total = tensor_count; }
  void OnRead(uint64_t bytes) override { read_bytes += bytes; }
  void OnRequiredTolerances(const RequiredTolerances& tolerances) override {
    tolerances.Show(comparison);
  }
  absl::Status OnRow(const v1::ComparisonRow& row) override {
    AccountRow(row, comparison);
    rows.push_back(row);
    return absl::OkStatus();
  }

  // Asked if there is one.
  std::function<bool()> is_cancelled;
  uint64_t total = 0;
  uint64_t read_bytes = 0;
  std::vector<v1::ComparisonRow> rows;
  v1::Comparison comparison;
};

}  // namespace msitd::compare
