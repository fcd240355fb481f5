// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/compare/comparison_engine.h"
#include "daemon/compare/comparison_observer.h"

namespace msitd::compare {

// Keeps the rows of a comparison.
class RowObserver final : public ComparisonObserver {
 public:
  bool IsCancelled() override { return false; }
  void OnTotal(uint64_t) override {}
  void OnRead(uint64_t bytes) override { read_bytes += bytes; }
  absl::Status OnRow(const v1::ComparisonRow& row) override {
    AccountRow(row, comparison);
    rows.push_back(row);
    return absl::OkStatus();
  }

  uint64_t read_bytes = 0;
  v1::Comparison comparison;
  std::vector<v1::ComparisonRow> rows;
};

}  // namespace msitd::compare
